-- Whoever may not make schemas uses one that was made for them.
DO $body$ BEGIN
    IF to_regnamespace('{s}') IS NULL THEN
        CREATE SCHEMA {s};
    END IF;
END $body$;

CREATE TABLE {s}.tract_store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format integer NOT NULL,
    partitions integer NOT NULL,
    row_security boolean NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- Numbers of repositories begin at random, so that a handle on a schema that was dropped and made
-- again finds nothing instead of somebody else's rows.
CREATE SEQUENCE {s}.repo_number START WITH {start};
-- Numbers of segments, log entries and rows of the tool index: rising, with gaps.
CREATE SEQUENCE {s}.number;

CREATE TABLE {s}.repos (
    id bigint PRIMARY KEY DEFAULT nextval('{s}.repo_number'),
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE {s}.blobs (
    repo bigint NOT NULL, hash bytea NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (repo, hash)
) PARTITION BY HASH (repo);

CREATE TABLE {s}.commits (
    repo bigint NOT NULL, hash bytea NOT NULL, seg bigint NOT NULL, pos bigint NOT NULL,
    rec bytea NOT NULL,
    PRIMARY KEY (repo, hash), UNIQUE (repo, seg, pos)
) PARTITION BY HASH (repo);

CREATE TABLE {s}.segments (
    repo bigint NOT NULL, seg bigint NOT NULL, parent_seg bigint, parent_pos bigint,
    PRIMARY KEY (repo, seg)
) PARTITION BY HASH (repo);

CREATE TABLE {s}.derived (
    repo bigint NOT NULL, kind smallint NOT NULL, seg bigint NOT NULL, pos bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (repo, kind, seg, pos)
) PARTITION BY HASH (repo);

CREATE TABLE {s}.ref_log (
    repo bigint NOT NULL, seq bigint NOT NULL, name text COLLATE "C" NOT NULL,
    before bytea, after bytea, batch bytea NOT NULL, note bytea NOT NULL, sum bigint NOT NULL,
    PRIMARY KEY (repo, seq), UNIQUE (repo, batch, name)
) PARTITION BY HASH (repo);
CREATE INDEX ref_log_name ON {s}.ref_log (repo, name, seq);

CREATE TABLE {s}.refs (
    repo bigint NOT NULL, name text COLLATE "C" NOT NULL, target bytea NOT NULL,
    sum bigint NOT NULL,
    PRIMARY KEY (repo, name)
) WITH (fillfactor = 50);

CREATE TABLE {s}.toolsets (
    repo bigint NOT NULL, hash bytea NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (repo, hash)
);

CREATE TABLE {s}.tools (
    repo bigint NOT NULL, hash bytea NOT NULL, schema bytea NOT NULL, ord bigint NOT NULL,
    name_key bigint NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (repo, hash, schema)
);
CREATE INDEX tools_name ON {s}.tools (repo, name_key);
