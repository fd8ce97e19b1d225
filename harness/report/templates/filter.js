(function () {
  "use strict";
  // The table is complete without this: it only hides lines that nobody asks for.
  function control(form, name, element) {
    var label = document.createElement("label");
    label.append(name + " ", element);
    element.name = name;
    form.append(label);
    return element;
  }
  document.querySelectorAll("table[data-filter]").forEach(function (table) {
    var form = document.getElementById(table.dataset.filter);
    var lines = Array.from(table.tBodies[0].rows);
    var tests = [];
    table.querySelectorAll("thead th").forEach(function (head, column) {
      var text = function (line) {
        var cell = line.cells[column];
        return (cell.dataset.value || cell.textContent).trim();
      };
      if ("choice" in head.dataset) {
        var select = control(form, head.textContent, document.createElement("select"));
        select.add(new Option("all", ""));
        Array.from(new Set(lines.map(text))).sort().forEach(function (value) { select.add(new Option(value, "=" + value)); });
        tests.push(function (line) { return !select.value || select.value === "=" + text(line); });
      } else if ("search" in head.dataset) {
        var input = control(form, head.textContent + " contains", document.createElement("input"));
        input.type = "search";
        tests.push(function (line) { return text(line).toLowerCase().includes(input.value.toLowerCase()); });
      }
    });
    var count = document.createElement("output");
    form.append(count);
    function show() {
      var shown = 0;
      lines.forEach(function (line) {
        line.hidden = !tests.every(function (test) { return test(line); });
        shown += line.hidden ? 0 : 1;
      });
      count.textContent = shown + " of " + lines.length + " lines";
    }
    form.addEventListener("input", show);
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.hidden = false;
    show();
  });
})();
