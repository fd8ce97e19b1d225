"""docs/gates.md, from gates.toml and from where each gate is tripped. Run as a program it writes the page."""

from __future__ import annotations

from harness.judge.gates import Gate, gates
from harness.paths import PROJECT

PAGE = PROJECT / "docs" / "gates.md"

END_TO_END: dict[str, str] = {
    "died": "test_fake_sessions::test_a_fault_of_the_candidate_is_named",
    "both-died": "test_fake_sessions::test_both_arms_dead_is_a_setup_failure",
    "had-to-be-killed": "test_fake_sessions::test_a_worker_that_outlives_its_server_is_killed_and_counted",
    "late-kernel": "test_fake_sessions::test_a_kernel_that_is_late_in_the_candidate_alone_fails",
    "monitor-in-one-arm": "test_void_rules::test_a_monitor_that_is_armed_in_one_arm_only_shows_nothing",
    "late-compile": "test_every_gate::test_what_comes_late_into_the_caches",
    "late-files": "test_every_gate::test_what_comes_late_into_the_caches",
    "late-loads": "test_every_gate::test_what_comes_late_into_the_caches",
    "traced-late": "test_every_gate::test_a_kernel_that_only_the_tracer_sees_late_in_the_candidate_fails",
    "mismatch": "test_trace_sessions::test_a_prewarm_of_the_wrong_specialisation_is_named_and_refuted",
    "traced-in-one-arm": "test_trace_sessions::test_what_nobody_could_see_is_not_shown",
    "claim-late-jit": "test_trace_sessions::test_a_prewarm_of_the_wrong_specialisation_is_named_and_refuted",
    "kind-not-served": "test_request_kinds::test_a_kind_that_only_the_candidate_refuses_fails_and_the_next_are_asked",
    "kind-late-kernel": "test_request_kinds::test_a_kernel_that_only_one_kind_needs_is_named_with_that_kind",
    "kind-monitor-in-one-arm": "test_void_rules::test_so_it_is_for_every_kind_of_request",
    "kv-disagrees": "test_every_gate::test_metrics_and_log_that_disagree_about_kv_tokens_are_void",
    "kv-less": "test_selftest::test_every_control_is_caught_and_named",
    "kv-starts": "test_every_gate::test_starts_of_an_arm_that_size_the_kv_cache_otherwise_are_a_warning",
    "free-low": "test_gpu_sessions::test_the_lowest_free_memory_of_the_candidate_is_gated",
    "free-too-low": "test_gpu_sessions::test_the_lowest_free_memory_of_the_candidate_is_gated",
    "kept-more": "test_gpu_sessions::test_what_a_first_long_prompt_takes_and_keeps_is_told_apart",
    "claim-kv": "test_every_gate::test_claims_about_kv_tokens_memory_and_start_are_refuted",
    "claim-free": "test_every_gate::test_claims_about_kv_tokens_memory_and_start_are_refuted",
    "claim-free-change": "test_every_gate::test_claims_about_kv_tokens_memory_and_start_are_refuted",
    "claim-cold-start": "test_every_gate::test_claims_about_kv_tokens_memory_and_start_are_refuted",
    "claim-throughput": "test_every_gate::test_a_claim_about_speed_is_refuted",
    "acceptance-fewer-prompts": "test_selftest::test_every_control_is_caught_and_named",
    "acceptance": "test_every_gate::test_worse_drafts_over_many_prompts_are_tested_and_named",
    "answers-control": "test_every_gate::test_that_does_not_give_its_models_answers_voids",
    "answers": "test_void_rules::test_an_output_that_differs_beside_a_prefix_hit_is_no_difference_of_the_candidate",
    "draft-arithmetic": "test_every_gate::test_a_draft_that_the_counters_leave_out_voids",
    "diverged": "test_fake_sessions::test_a_fault_of_the_candidate_is_named",
    "unstable": "test_fake_sessions::test_a_fault_of_the_candidate_is_named",
    "near-tie": "test_fake_sessions::test_a_near_tie_that_the_other_token_wins_is_a_warning",
    "measured-near-tie": "test_fake_sessions::test_a_near_tie_that_the_other_token_wins_is_a_warning",
    "measured-diverged": "test_every_gate::test_an_output_of_what_was_timed_that_differs_fails",
    "states-diverged": "test_every_gate::test_answers_that_depend_on_the_warm_up_in_the_candidate_alone_fail",
    "garbage-control": "test_garbage::test_nonsense_of_both_arms_is_not_called_identical",
    "garbage": "test_garbage::test_nonsense_of_the_candidate_fails",
    "needle": "test_text_prompts::test_a_fact_that_only_the_control_finds_fails",
    "regressed": "test_selftest::test_every_control_is_caught_and_named",
    "night-regressed": "test_nightly::test_what_the_nights_together_say_is_judged_from_the_bundle_alone",
    "night-improvement-lost": "test_nightly::test_what_the_nights_together_say_is_judged_from_the_bundle_alone",
    "host-uncalibrated": "test_nightly::test_what_the_nights_together_say_is_judged_from_the_bundle_alone",
    "speed-refused": "test_nightly::test_what_the_nights_together_say_is_judged_from_the_bundle_alone",
    "concurrency-server": "test_fake_client::test_a_server_with_fewer_slots_queues_and_is_named",
    "short-control": "test_every_gate::test_that_does_not_serve_in_full_voids",
    "short": "test_fake_sessions::test_a_fault_of_the_candidate_is_named",
    "miscounted": "test_void_rules::test_counts_that_are_not_ours_void_the_window_and_what_was_compared_in_it",
    "clock-set": "test_void_rules::test_a_clock_that_somebody_sets_voids_the_launch",
    "errors": "test_every_gate::test_one_that_only_the_candidate_prints_fails",
    "errors-control": "test_every_gate::test_one_that_the_control_prints_too_is_a_warning",
    "check": "test_fake_sessions::test_a_users_own_check_counts",
    "source-check-setup": "test_source_checks::test_a_missing_dependency_is_the_environments_and_named",
    "source-check": "test_source_checks::test_a_test_that_the_candidate_breaks_fails_by_its_node_id",
    "source-check-vanished": "test_source_checks::test_a_test_that_vanished_is_reported",
    "image-differs": "test_patched_sessions::test_a_file_that_changes_in_the_running_container_is_a_setup_failure",
    "runner": "test_every_gate::test_arms_on_different_model_runners_are_not_comparable",
    "unknown-variable": "test_every_gate::test_arms_that_differ_only_in_a_variable_that_nothing_reads_are_named",
    "prompts-changed": "test_text_prompts::test_a_prompt_that_is_not_what_was_frozen_voids",
    "tokenizers-differ": "test_text_prompts::test_another_tokenizer_in_one_arm_is_said",
    "gpu-unwatched": "test_gpu_sessions::test_a_sampler_that_was_killed",
    "gpu-foreign": "test_gpu_sessions::test_somebody_who_computes_beside_the_server",
    "gpu-desktop": "test_every_gate::test_a_desktop_whose_use_of_the_gpu_is_not_constant_is_a_warning",
    "gpu-throttled": "test_gpu_sessions::test_it_says_what_broke_and_is_no_judgement",
    "gpu-power": "test_gpu_sessions::test_it_says_what_broke_and_is_no_judgement",
    "gpu-errors-control": "test_gpu_sessions::test_it_says_what_broke_and_is_no_judgement",
    "gpu-errors": "test_gpu_sessions::test_a_gpu_that_breaks_under_the_candidate",
    "thermal": "test_thermal_sessions::test_one_that_still_warms_up_when_the_time_is_over_is_named",
    "gpu-not-back": "test_gpu_sessions::test_memory_that_does_not_return_keeps_the_next_launch_from_starting",
    "launch-missing": "test_interruption::test_ctrl_c_keeps_the_evidence_and_leaves_nothing_running",
    "launch-order": "test_every_gate::test_a_launch_that_began_earlier",
    "evidence-changed": "test_sealed_sessions::test_a_log_that_is_rewritten_while_the_session_runs_fails_it",
    "evidence-broken": "test_void_rules::test_a_log_for_whose_end_the_disk_has_no_room_voids_the_session",
    "again-otherwise": "test_void_rules::test_a_void_pair_is_run_once_more_and_both_stay",
    "beside-a-stranger": "test_void_rules::test_a_kernel_that_a_foreign_request_may_have_needed_fails_nobody",
    "computed-otherwise": "test_void_rules::test_counts_that_are_not_ours_void_the_window_and_what_was_compared_in_it",
    "not-comparable": "test_every_gate::test_an_output_that_was_taken_away",
    "control-not-comparable": "test_every_gate::test_an_output_that_was_taken_away",
    "states-near-tie": "test_every_gate::test_a_tie_that_breaks_in_another_state_of_the_candidate_is_a_warning",
    "client-stalled": "test_every_gate::test_events_that_the_client_reads_in_a_burst_give_no_rate",
    "asked-otherwise": "test_every_gate::test_a_request_that_was_exchanged",
    "gpu-gap": "test_gpu_sessions::test_a_sampler_that_stands_still_leaves_a_gap_that_is_named",
    "client-untested": "test_fake_client::test_the_self_test_is_evidence_and_a_row",
    "client-miscounts": "test_fake_client::test_the_self_test_is_evidence_and_a_row",
    "client-slow": "test_fake_client::test_the_self_test_is_evidence_and_a_row",
    "again-though-it-stood": "test_void_rules::test_a_pair_that_stands_leaves_nothing_of_a_second_try",
    "look-otherwise": "test_fake_sessions::test_a_session_goes_on_only_where_its_first_look_is_inconclusive",
    "look-against-rule": "test_fake_sessions::test_a_session_goes_on_only_where_its_first_look_is_inconclusive",
    "source-check-broken": "test_source_checks::test_a_report_of_a_check_that_was_changed_voids_it",
    "image-unseen": "test_patched_sessions::test_a_container_of_which_nobody_can_show_what_it_held_voids",
    "session-interrupted": "test_interruption::test_ctrl_c_while_no_server_runs_voids_the_session",
}
"""Gate -> the test that drives it through a server: module of tests/e2e and function."""
CHANGED_AFTERWARDS = frozenset(
    {
        *("not-comparable", "control-not-comparable", "asked-otherwise", "source-check-broken", "image-unseen"),
        *("client-untested", "client-miscounts", "client-slow"),
        *("again-though-it-stood", "look-otherwise", "look-against-rule"),
    }
)
"""Gates that a session of this harness does not trip: the test changes the evidence of one, and judges it again."""
NOT_END_TO_END: dict[str, str] = {
    "concurrency-client": "the client's own failing",
}
"""Gate -> why none does."""
BY_SESSION: dict[str, str] = {
    "needle": "test_text_prompts::test_a_fact_that_only_the_control_finds_fails",
    "prompts-changed": "test_text_prompts::test_a_prompt_that_is_not_what_was_frozen_voids",
    "tokenizers-differ": "test_text_prompts::test_another_tokenizer_in_one_arm_is_said",
}
"""Gates that only a session trips: evidence of theirs is not simulated."""

FAILURES: dict[str, str] = {
    "wrong image behind a tag": "image/test_verify.py::test_the_tag_moved_after_the_start",
    "head moved since the lock": "stack/test_heads.py::test_a_head_that_moved_is_refused_with_old_and_new",
    "patch applied to one of two installed copies": "e2e/test_patched_sessions.py::"
    "test_a_patch_in_a_copy_that_nobody_imports_is_a_setup_failure",
    "patch touches compiled sources": "stack/test_files.py::"
    "test_compiled_sources_in_an_overlay_are_refused_with_the_head_that_brings_them",
    "missing compiled extension": "image/test_probe.py::test_an_extension",
    "container killed for memory": "launch/test_docker_server.py::test_out_of_memory_is_named",
    "engine dead after ready": "e2e/test_fake_sessions.py::test_a_fault_of_the_candidate_is_named",
    "request that never ends": "e2e/test_fake_sessions.py::test_a_fault_of_the_candidate_is_named",
    "workers that outlive the server": "e2e/test_fake_sessions.py::"
    "test_a_worker_that_outlives_its_server_is_killed_and_counted",
    "rank whose process vanishes, and no line tells": "e2e/test_rank_sessions.py::"
    "test_a_vanished_rank_fails_the_launch_though_its_server_serves_on",
    "GPU already in use": "e2e/test_gpu_sessions.py::"
    "test_a_process_that_is_there_before_keeps_the_session_from_starting",
    "GPU memory that does not return": "e2e/test_gpu_sessions.py::"
    "test_memory_that_does_not_return_keeps_the_next_launch_from_starting",
    "port taken": "launch/test_readiness.py::test_another_server_on_the_port_does_not_answer_for_a_dead_one",
    "full disk": "launch/test_process.py::test_a_full_disk_does_not_block_the_server_and_is_reported",
    "Ctrl-C": "e2e/test_interruption.py::test_ctrl_c_keeps_the_evidence_and_leaves_nothing_running",
    "its own death, processes": "e2e/test_interruption.py::test_after_a_kill_the_next_run_ends_what_was_left",
    "its own death, containers": "e2e/test_docker_sessions.py::"
    "test_after_a_kill_the_next_session_removes_what_was_left_and_nothing_else",
    "evidence that somebody changes": "e2e/test_sealed_sessions.py::"
    "test_a_log_that_is_rewritten_while_the_session_runs_fails_it",
    "clock change": "e2e/test_void_rules.py::test_a_clock_that_somebody_sets_voids_the_launch",
    "scrape failure, counter reset": "e2e/test_void_rules.py::"
    "test_counts_that_are_not_ours_void_the_window_and_what_was_compared_in_it",
    "torn lines, progress bars, colours, bytes that are no UTF-8": "e2e/test_fake_client.py::"
    "test_what_is_strange_and_right_passes",
    "a log of a gigabyte": "launch/test_logpipe.py::test_the_tail_of_a_large_log_is_bounded",
    "a stranger's code and the user's secrets": "e2e/test_fake_sessions.py::"
    "test_a_secret_of_the_user_reaches_no_server",
}
"""Faults of DESIGN 7 that it must survive, and say so -> the test that shows it, below tests/."""

HEAD = """# Gates and void rules

Every way in which a row can be something other than a pass. The table is `harness/judge/gates.toml`; a test
holds it against the judge's code (each word that a function can give stands here), and trips every gate:
`tests/judge/test_every_gate.py` by a simulated session, and the test that is named by a server, in most cases the
built-in one with a fault. A row names file, line or field of its figures in its sources.

Words: a *fail* is the candidate's, a *void* a broken measurement, a *setup failure* the host's; a *warn* does not
touch the exit code (DESIGN 6), and what is *refused* was measured on a host that has lost the right to judge speed:
the session is inconclusive at best. What breaks a measurement also voids the other rows that rest on it (last two).
"""


def page() -> str:
    """The whole page."""
    head = ["| row | word | what trips it | threshold | its figures | driven through a server by |", "|" + "---|" * 6]
    failures = [f"| {what} | `tests/{test}` |" for what, test in FAILURES.items()]
    survived = ["", "## Faults that it survives, and says so", "", "| fault | shown by |", "|---|---|", *failures]
    return "\n".join([HEAD, *head, *map(_line, gates()), *survived, ""])


def _line(gate: Gate) -> str:
    driven = END_TO_END.get(gate.id)
    by = f"`tests/e2e/{driven.replace('::', '.py::')}`" if driven else f"not: {NOT_END_TO_END.get(gate.id, '')}"
    by += ", in evidence that it changes" if gate.id in CHANGED_AFTERWARDS else ""
    cells = (gate.row, str(gate.word), gate.rule, gate.threshold or "any", f"`{gate.figures}`", by)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
