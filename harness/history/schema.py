"""Tables of the index. Every row comes from a bundle, so a lost index is an import away.

They hold more than the judge asks for: locks, trees and heads per arm, times, the night and its anchor, so that
a bisect or a page of trends needs no other source.
"""

from __future__ import annotations

SCHEMA = 1
"""PRAGMA user_version. A newer one is refused; an older one is made again from bundles."""

TABLES = """
CREATE TABLE hosts (
    id INTEGER PRIMARY KEY,
    host_id TEXT,                    -- random, drawn by the host itself; NULL in bundles of before there was one
    class_sha256 TEXT NOT NULL,
    class TEXT NOT NULL              -- JSON: system, processor, cores, memory, GPUs
);
CREATE UNIQUE INDEX host_of ON hosts (coalesce(host_id, ''), class_sha256);

CREATE TABLE sessions (
    root_sha256 TEXT PRIMARY KEY,    -- SHA-256 of SHA256SUMS
    session TEXT NOT NULL UNIQUE,
    place TEXT NOT NULL,             -- folder that it was imported from; it may be gone
    host INTEGER NOT NULL REFERENCES hosts (id),
    profile TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('A/A', 'A/B')),
    verdict TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    started_wall TEXT NOT NULL,      -- UTC, ISO 8601
    ended_wall TEXT,
    interrupted TEXT,
    measurement INTEGER NOT NULL,
    smoke INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    harness_version TEXT NOT NULL,
    harness_commit TEXT,
    harness_dirty INTEGER,
    night TEXT,                      -- YYYY-MM-DD of a nightly session
    anchor_sha256 TEXT               -- record in the chain of anchors; NULL for the profile's control
);
CREATE INDEX sessions_of_host ON sessions (host, profile, started_wall);

CREATE TABLE arms (
    root_sha256 TEXT NOT NULL REFERENCES sessions (root_sha256) ON DELETE CASCADE,
    arm TEXT NOT NULL,
    stack TEXT NOT NULL,
    software_sha256 TEXT NOT NULL,   -- lock or image or engine, flags, environment and model: equal in A/A
    engine_version TEXT NOT NULL,
    image_id TEXT,
    base_reference TEXT,
    lock_sha256 TEXT,
    model_sha256 TEXT NOT NULL,
    PRIMARY KEY (root_sha256, arm)
);

CREATE TABLE components (
    root_sha256 TEXT NOT NULL,
    arm TEXT NOT NULL,
    component TEXT NOT NULL,
    repository TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    tree TEXT NOT NULL,              -- git tree that the image holds
    PRIMARY KEY (root_sha256, arm, component),
    FOREIGN KEY (root_sha256, arm) REFERENCES arms ON DELETE CASCADE
);

CREATE TABLE heads (
    root_sha256 TEXT NOT NULL,
    arm TEXT NOT NULL,
    component TEXT NOT NULL,
    place INTEGER NOT NULL,          -- order in which they were put on
    pr INTEGER NOT NULL,
    head TEXT,                       -- 40 hex digits
    disposition TEXT NOT NULL,
    tree TEXT,                       -- git tree after this head
    PRIMARY KEY (root_sha256, arm, component, place),
    FOREIGN KEY (root_sha256, arm, component) REFERENCES components ON DELETE CASCADE
);

CREATE TABLE metrics (
    id INTEGER PRIMARY KEY,
    root_sha256 TEXT NOT NULL REFERENCES sessions (root_sha256) ON DELETE CASCADE,
    mode TEXT NOT NULL,
    warmup TEXT NOT NULL,
    cache TEXT NOT NULL,             -- as planned
    proven TEXT NOT NULL,            -- as the evidence shows it
    name TEXT NOT NULL,
    context_tokens INTEGER,
    cell_sha256 TEXT NOT NULL,       -- identity of the cell, context and proven cache included
    is_primary INTEGER NOT NULL,
    word TEXT NOT NULL,              -- before a host without the right to judge was refused it
    pairs INTEGER NOT NULL,
    mean REAL NOT NULL,              -- of the log ratios, better being plus
    own_sd REAL,                     -- of one pair in this session alone; NULL for a single pair
    low_pct REAL,
    high_pct REAL,
    margin_pct REAL
);
CREATE INDEX metrics_of_cell ON metrics (cell_sha256, name);
CREATE INDEX metrics_of_session ON metrics (root_sha256);

CREATE TABLE ratios (
    metric INTEGER NOT NULL REFERENCES metrics (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    log_ratio REAL NOT NULL,
    PRIMARY KEY (metric, place)
) WITHOUT ROWID;
"""
