-- Writes several batches of the shape that `append` writes, to different refs of one repository: one
-- transaction and one flush for all.
--
-- Answers the numbers, from 1, of those that are done. Of the others nothing is written, and each is
-- to go by itself. A ref that somebody else is writing holds all up, so nobody waits long for it.
-- What somebody else did meanwhile is a unique violation, and takes all back.
--
-- The first commit and the first blob of each stand beside its ref, and what else there is in lists
-- of its own, each with the number of its batch; these are null instead of empty.
--
-- What it takes, answers and does stays: another way of writing gets another name.
CREATE OR REPLACE FUNCTION {s}.append_group{cut}(
    p_repo text, p_number bigint, p_lock_ms integer, p_unsafe boolean,
    r_batch bytea[], r_note bytea[], r_name text[], r_is bytea[], r_to bytea[],
    r_sum bigint[], r_log bigint[],
    r_parent bytea[], r_commit bytea[], r_rec bytea[], r_blob bytea[], r_data bytea[],
    n_of integer[], n_blobs bytea[], t_of integer[], n_toolsets bytea[],
    c_of integer[], c_at integer[], c_hashes bytea[], c_recs bytea[],
    b_of integer[], b_hashes bytea[], b_datas bytea[]
) RETURNS integer[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_memoize = off
AS $body$
#variable_conflict use_column
DECLARE
    v_set text;
    v_lacking integer[] := '{}';
    v_done integer[];
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);{own}
    -- A sweep and an erasure hold this lock alone: nothing that is read from here on is deleted, and
    -- nothing is erased, before the end.
    v_set := pg_advisory_xact_lock_shared(p_number);
    IF NOT p_unsafe AND current_setting('synchronous_commit') = 'off' THEN
        v_set := set_config('synchronous_commit', 'on', true);
    END IF;
    IF n_of IS NOT NULL THEN
        v_lacking := ARRAY(
            SELECT u.n FROM unnest(n_of, n_blobs) AS u (n, hash) WHERE (
                SELECT repo FROM {s}.blobs{cut} WHERE repo = p_number AND hash = u.hash LIMIT 1
            ) IS NULL);
    END IF;
    IF t_of IS NOT NULL THEN
        v_lacking := v_lacking || ARRAY(
            SELECT u.n FROM unnest(t_of, n_toolsets) AS u (n, hash) WHERE (
                SELECT repo FROM {s}.toolsets WHERE repo = p_number AND hash = u.hash LIMIT 1
            ) IS NULL);
    END IF;
    IF b_of IS NOT NULL THEN
        -- What was erased stays away: see `apply`.
        v_lacking := v_lacking || ARRAY(
            SELECT u.n FROM unnest(b_of, b_hashes) AS u (n, hash) WHERE (
                SELECT repo FROM {s}.refs
                WHERE repo = p_number AND name = 'erasures/' || encode(u.hash, 'hex') LIMIT 1
            ) IS NOT NULL);
    END IF;
    WITH moved AS (
        UPDATE {s}.refs AS r SET target = m.after, sum = m.sum
        FROM (
            SELECT u.*, w.at, c.seg, c.pos
            FROM (
                SELECT generate_series(1, cardinality(r_name)) AS n, unnest(r_name) AS name,
                    unnest(r_is) AS before, unnest(r_to) AS after, unnest(r_sum) AS sum,
                    unnest(r_log) AS log, unnest(r_batch) AS batch, unnest(r_note) AS note,
                    unnest(r_parent) AS parent, unnest(r_commit) AS commit, unnest(r_rec) AS rec,
                    unnest(r_blob) AS blob, unnest(r_data) AS data
            ) AS u
            -- One look-up each, however many refs there are: a join might read them all.
            CROSS JOIN LATERAL (
                SELECT ctid AS at FROM {s}.refs
                WHERE repo = p_number AND name = u.name AND target = u.before
                LIMIT 1
            ) AS w
            CROSS JOIN LATERAL (
                SELECT seg, pos + 1 AS pos FROM {s}.commits{cut}
                WHERE repo = p_number AND hash = u.parent
                LIMIT 1
            ) AS c
            WHERE (
                SELECT hash FROM {s}.commits{cut}
                WHERE repo = p_number AND seg = c.seg AND pos = c.pos
                LIMIT 1
            ) IS NULL AND u.n <> ALL (v_lacking)
            -- One look into the index for all of them where nothing was erased.
            AND ((
                SELECT repo FROM {s}.refs
                WHERE repo = p_number AND name >= 'erasures/' AND name < 'erasures0' LIMIT 1
            ) IS NULL OR (
                SELECT repo FROM {s}.refs
                WHERE repo = p_number AND name = 'erasures/' || encode(u.blob, 'hex') LIMIT 1
            ) IS NULL)
        ) AS m
        -- The target once more: whoever waited here sees the row as it has become.
        WHERE r.ctid = m.at AND r.target = m.before
        RETURNING m.*, nextval('{s}.number') AS seq
    ), log AS (
        INSERT INTO {s}.ref_log{cut}
            SELECT p_number, seq, name, before, after, batch, note, log # seq FROM moved
    ), line AS (
        INSERT INTO {s}.commits{cut} SELECT p_number, commit, seg, pos, rec FROM moved
    ), content AS (
        INSERT INTO {s}.blobs{cut} SELECT p_number, blob, data FROM moved WHERE blob IS NOT NULL
            ON CONFLICT DO NOTHING
    )
    SELECT array_agg(n) INTO v_done FROM moved;
    IF b_of IS NOT NULL THEN
        INSERT INTO {s}.blobs{cut}
            SELECT p_number, u.hash, u.data FROM unnest(b_of, b_hashes, b_datas) AS u (n, hash, data)
            WHERE u.n = ANY (v_done)
            ON CONFLICT DO NOTHING;
    END IF;
    IF c_of IS NOT NULL THEN
        INSERT INTO {s}.commits{cut}
            SELECT p_number, u.hash, c.seg, c.pos + u.at, u.rec
            FROM unnest(c_of, c_at, c_hashes, c_recs) AS u (n, at, hash, rec)
            CROSS JOIN LATERAL (
                SELECT seg, pos FROM {s}.commits{cut}
                WHERE repo = p_number AND hash = r_commit[u.n]
                LIMIT 1
            ) AS c
            WHERE u.n = ANY (v_done);
    END IF;
    RETURN v_done;
END
$body$;
