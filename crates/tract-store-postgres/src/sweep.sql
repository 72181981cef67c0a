-- Deleting what nothing needs, while others write.
--
-- Every write holds the repository's lock, shared, before it reads anything or takes a number (one that
-- erases holds it alone). What holds it alone therefore sees all that was written, and numbers of later
-- writes are higher. Writes
-- that store what their own ref moves do not reach leave a segment without commits, whose number is below
-- zero: the lowest tells how far they have come. `apply` does so where no ref moves, `apply_ahead` always.
--
-- What they take, answer and do stays: another way of sweeping gets another name.

-- Waits for writes that functions of an earlier edition began, which do not hold that lock.
CREATE OR REPLACE FUNCTION {s}.settle(p_lock_ms integer) RETURNS void
LANGUAGE plpgsql
AS $body$
DECLARE
    v_set text;
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);
    LOCK TABLE {s}.refs IN EXCLUSIVE MODE;
END
$body$;

-- Answers the number of the newest entry of the log, and that of the newest write that moved no ref.
CREATE OR REPLACE FUNCTION {s}.write_position(p_repo text, p_lock_ms integer)
RETURNS TABLE (log bigint, unlogged bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $body$
#variable_conflict use_column
DECLARE
    v_set text;
    v_repo bigint;
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);
    v_set := set_config('tract.repo', p_repo, true);
    SELECT id INTO v_repo FROM {s}.repos WHERE name = p_repo;
    IF v_repo IS NULL THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint;
        RETURN;
    END IF;
    v_set := pg_advisory_xact_lock(v_repo);
    RETURN QUERY SELECT
        coalesce((SELECT seq FROM {s}.ref_log WHERE repo = v_repo ORDER BY seq DESC LIMIT 1), 0),
        coalesce((SELECT -seg FROM {s}.segments WHERE repo = v_repo AND seg < 0
            ORDER BY seg LIMIT 1), 0);
END
$body$;

-- Deletes objects if nothing was written since a position. Answers whether it did, the position, about
-- how many bytes of rows it deleted, and the partition of the log.
CREATE OR REPLACE FUNCTION {s}.sweep(
    p_repo text, p_lock_ms integer, p_unsafe boolean, p_log bigint, p_unlogged bigint,
    d_kind smallint[], c_hash bytea[], b_hash bytea[], t_hash bytea[], x_hash bytea[],
    u_hash bytea[], u_schema bytea[], u_key bigint[], u_data bytea[]
) RETURNS TABLE (done boolean, log bigint, unlogged bigint, freed bigint, place text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $body$
#variable_conflict use_column
DECLARE
    v_set text;
    v_repo bigint;
    v_log bigint;
    v_unlogged bigint;
    v_freed bigint := 0;
    v_bytes bigint;
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);
    v_set := set_config('tract.repo', p_repo, true);
    IF NOT p_unsafe AND current_setting('synchronous_commit') = 'off' THEN
        v_set := set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT id INTO v_repo FROM {s}.repos WHERE name = p_repo;
    IF v_repo IS NULL THEN
        RETURN QUERY SELECT true, 0::bigint, 0::bigint, 0::bigint, NULL::text;
        RETURN;
    END IF;
    v_set := pg_advisory_xact_lock(v_repo);
    v_log := coalesce(
        (SELECT seq FROM {s}.ref_log WHERE repo = v_repo ORDER BY seq DESC LIMIT 1), 0);
    v_unlogged := coalesce((SELECT -seg FROM {s}.segments WHERE repo = v_repo AND seg < 0
        ORDER BY seg LIMIT 1), 0);
    IF v_log <> p_log OR v_unlogged <> p_unlogged THEN
        RETURN QUERY SELECT false, v_log, v_unlogged, 0::bigint, NULL::text;
        RETURN;
    END IF;
    IF cardinality(c_hash) > 0 THEN
        DELETE FROM {s}.derived d USING (
            SELECT c.seg, c.pos, k.kind FROM {s}.commits c CROSS JOIN unnest(d_kind) AS k (kind)
            WHERE c.repo = v_repo AND c.hash = ANY (c_hash)
        ) AS m
            WHERE d.repo = v_repo AND d.kind = m.kind AND d.seg = m.seg AND d.pos = m.pos;
        -- The other commits of a segment descend from its first one, and went before it.
        DELETE FROM {s}.segments g USING (
            SELECT c.seg FROM {s}.commits c
            WHERE c.repo = v_repo AND c.hash = ANY (c_hash) AND c.pos = 0
        ) AS m
            WHERE g.repo = v_repo AND g.seg = m.seg;
        WITH gone AS (
            DELETE FROM {s}.commits WHERE repo = v_repo AND hash = ANY (c_hash)
            RETURNING pg_column_size(rec) + 200 AS bytes
        )
        SELECT coalesce(sum(bytes), 0) INTO v_bytes FROM gone;
        v_freed := v_freed + v_bytes;
    END IF;
    IF cardinality(b_hash) > 0 THEN
        WITH gone AS (
            DELETE FROM {s}.blobs WHERE repo = v_repo AND hash = ANY (b_hash)
            RETURNING pg_column_size(data) + 150 AS bytes
        )
        SELECT coalesce(sum(bytes), 0) INTO v_bytes FROM gone;
        v_freed := v_freed + v_bytes;
    END IF;
    IF cardinality(t_hash) > 0 THEN
        WITH gone AS (
            DELETE FROM {s}.toolsets WHERE repo = v_repo AND hash = ANY (t_hash)
            RETURNING pg_column_size(data) + 150 AS bytes
        )
        SELECT coalesce(sum(bytes), 0) INTO v_bytes FROM gone;
        v_freed := v_freed + v_bytes;
    END IF;
    IF cardinality(x_hash) > 0 THEN
        DELETE FROM {s}.tools WHERE repo = v_repo AND hash = ANY (x_hash);
    END IF;
    IF cardinality(u_hash) > 0 THEN
        INSERT INTO {s}.tools
            SELECT v_repo, u.h, u.s, nextval('{s}.number'), u.k, u.d
            FROM unnest(u_hash, u_schema, u_key, u_data) AS u (h, s, k, d)
            ON CONFLICT DO NOTHING;
    END IF;
    -- Of the writes that moved no ref the newest alone is remembered.
    DELETE FROM {s}.segments WHERE repo = v_repo AND seg < 0 AND seg > -v_unlogged;
    RETURN QUERY SELECT true, v_log, v_unlogged, v_freed,
        (SELECT tableoid::regclass::text FROM {s}.ref_log WHERE repo = v_repo LIMIT 1);
END
$body$;

-- Does what `apply` does, with a batch that stores objects which its ref moves do not reach.
CREATE OR REPLACE FUNCTION {s}.apply_ahead(
    p_repo text, p_batch bytea, p_note bytea, p_lock_ms integer, p_unsafe boolean,
    r_name text[], r_sorted integer[], r_expect smallint[], r_is bytea[], r_to bytea[],
    r_sum bigint[], r_log bigint[],
    n_commits bytea[], n_blobs bytea[], n_toolsets bytea[], n_tools bytea[],
    b_hash bytea[], b_data bytea[],
    c_hash bytea[], c_rec bytea[], c_parent bytea[], c_runs integer[],
    t_hash bytea[], t_data bytea[],
    u_hash bytea[], u_schema bytea[], u_key bigint[], u_data bytea[],
    d_kind smallint[], d_commit bytea[], d_data bytea[]
) RETURNS TABLE (status smallint, what text, found bytea, found_sum bigint)
LANGUAGE plpgsql
AS $body$
#variable_conflict use_column
DECLARE
    v_answer record;
BEGIN
    SELECT a.status, a.what, a.found, a.found_sum INTO v_answer FROM {s}.apply(
        p_repo, p_batch, p_note, p_lock_ms, p_unsafe, r_name, r_sorted, r_expect, r_is, r_to, r_sum,
        r_log, n_commits, n_blobs, n_toolsets, n_tools, b_hash, b_data, c_hash, c_rec, c_parent,
        c_runs, t_hash, t_data, u_hash, u_schema, u_key, u_data, d_kind, d_commit, d_data
    ) AS a;
    -- The partition of the log: a ref moved, so that `apply` did not count the write. What is last in
    -- its answer is the number of the repository then.
    IF v_answer.status = 0 AND v_answer.what IS NOT NULL THEN
        INSERT INTO {s}.segments VALUES (
            v_answer.found_sum, -nextval('{s}.number'), NULL, NULL);
    END IF;
    RETURN QUERY SELECT v_answer.status, v_answer.what, v_answer.found, v_answer.found_sum;
END
$body$;

-- Takes the repository's lock alone, and answers the position of the last write if it is another one than
-- expected. A batch that is in the log already is written again whatever the position: `apply` answers
-- that it is.
CREATE OR REPLACE FUNCTION {s}.moved(
    p_repo text, p_batch bytea, p_lock_ms integer, p_log bigint, p_unlogged bigint
) RETURNS TABLE (log bigint, unlogged bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $body$
#variable_conflict use_column
DECLARE
    v_log bigint;
    v_unlogged bigint;
BEGIN
    SELECT p.log, p.unlogged INTO v_log, v_unlogged
        FROM {s}.write_position(p_repo, p_lock_ms) AS p;
    IF v_log = p_log AND v_unlogged = p_unlogged THEN
        RETURN;
    END IF;
    PERFORM 1 FROM {s}.ref_log
        WHERE repo = (SELECT id FROM {s}.repos WHERE name = p_repo) AND batch = p_batch LIMIT 1;
    IF NOT FOUND THEN
        RETURN QUERY SELECT v_log, v_unlogged;
    END IF;
END
$body$;

-- Does what `apply` does if nothing was written since a position. Otherwise answers (4, null, the count
-- of unlogged writes, the number of the newest entry of the log) moved.
CREATE OR REPLACE FUNCTION {s}.apply_at(
    p_repo text, p_batch bytea, p_note bytea, p_lock_ms integer, p_unsafe boolean,
    r_name text[], r_sorted integer[], r_expect smallint[], r_is bytea[], r_to bytea[],
    r_sum bigint[], r_log bigint[],
    n_commits bytea[], n_blobs bytea[], n_toolsets bytea[], n_tools bytea[],
    b_hash bytea[], b_data bytea[],
    c_hash bytea[], c_rec bytea[], c_parent bytea[], c_runs integer[],
    t_hash bytea[], t_data bytea[],
    u_hash bytea[], u_schema bytea[], u_key bigint[], u_data bytea[],
    d_kind smallint[], d_commit bytea[], d_data bytea[],
    p_log bigint, p_unlogged bigint
) RETURNS TABLE (status smallint, what text, found bytea, found_sum bigint)
LANGUAGE plpgsql
AS $body$
#variable_conflict use_column
DECLARE
    v_log bigint;
    v_unlogged bigint;
BEGIN
    SELECT m.log, m.unlogged INTO v_log, v_unlogged
        FROM {s}.moved(p_repo, p_batch, p_lock_ms, p_log, p_unlogged) AS m;
    IF v_log IS NOT NULL THEN
        RETURN QUERY SELECT 4::smallint, NULL::text, int8send(v_unlogged), v_log;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM {s}.apply(
        p_repo, p_batch, p_note, p_lock_ms, p_unsafe, r_name, r_sorted, r_expect, r_is, r_to, r_sum,
        r_log, n_commits, n_blobs, n_toolsets, n_tools, b_hash, b_data, c_hash, c_rec, c_parent,
        c_runs, t_hash, t_data, u_hash, u_schema, u_key, u_data, d_kind, d_commit, d_data
    );
END
$body$;

-- Does what `apply_ahead` does if nothing was written since a position.
CREATE OR REPLACE FUNCTION {s}.apply_ahead_at(
    p_repo text, p_batch bytea, p_note bytea, p_lock_ms integer, p_unsafe boolean,
    r_name text[], r_sorted integer[], r_expect smallint[], r_is bytea[], r_to bytea[],
    r_sum bigint[], r_log bigint[],
    n_commits bytea[], n_blobs bytea[], n_toolsets bytea[], n_tools bytea[],
    b_hash bytea[], b_data bytea[],
    c_hash bytea[], c_rec bytea[], c_parent bytea[], c_runs integer[],
    t_hash bytea[], t_data bytea[],
    u_hash bytea[], u_schema bytea[], u_key bigint[], u_data bytea[],
    d_kind smallint[], d_commit bytea[], d_data bytea[],
    p_log bigint, p_unlogged bigint
) RETURNS TABLE (status smallint, what text, found bytea, found_sum bigint)
LANGUAGE plpgsql
AS $body$
#variable_conflict use_column
DECLARE
    v_log bigint;
    v_unlogged bigint;
BEGIN
    SELECT m.log, m.unlogged INTO v_log, v_unlogged
        FROM {s}.moved(p_repo, p_batch, p_lock_ms, p_log, p_unlogged) AS m;
    IF v_log IS NOT NULL THEN
        RETURN QUERY SELECT 4::smallint, NULL::text, int8send(v_unlogged), v_log;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM {s}.apply_ahead(
        p_repo, p_batch, p_note, p_lock_ms, p_unsafe, r_name, r_sorted, r_expect, r_is, r_to, r_sum,
        r_log, n_commits, n_blobs, n_toolsets, n_tools, b_hash, b_data, c_hash, c_rec, c_parent,
        c_runs, t_hash, t_data, u_hash, u_schema, u_key, u_data, d_kind, d_commit, d_data
    );
END
$body$;
