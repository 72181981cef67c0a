-- Writes several batches of the shape that `append` writes, of one ref, each of which continues the one
-- before it: one transaction and one flush for all, and an entry of the log for each.
--
-- Answers whether they are written. Else nothing of them is, and each is to go by itself. What
-- others did meanwhile is a unique violation, which rolls all of it back.
--
-- What it takes, answers and does stays: another way of writing gets another name.
CREATE OR REPLACE FUNCTION {s}.append_chain{cut}(
    p_repo text, p_number bigint, p_lock_ms integer, p_unsafe boolean,
    r_name text, r_sum bigint,
    r_batch bytea[], r_note bytea[], r_is bytea[], r_to bytea[], r_log bigint[],
    n_blobs bytea[], n_toolsets bytea[],
    c_parent bytea, c_hashes bytea[], c_recs bytea[], b_hashes bytea[], b_datas bytea[]
) RETURNS boolean
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $body$
#variable_conflict use_column
DECLARE
    v_set text;
    v_seg bigint;
    v_pos bigint;
    v_ok boolean := true;
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);{own}
    -- A sweep and an erasure hold this lock alone: nothing that is read from here on is deleted, and
    -- nothing is erased, before the end.
    v_set := pg_advisory_xact_lock_shared(p_number);
    IF NOT p_unsafe AND current_setting('synchronous_commit') = 'off' THEN
        v_set := set_config('synchronous_commit', 'on', true);
    END IF;
    IF n_blobs IS NOT NULL THEN
        v_ok := cardinality(n_blobs) = (
            SELECT count(*) FROM {s}.blobs{cut} WHERE repo = p_number AND hash = ANY (n_blobs));
    END IF;
    IF n_toolsets IS NOT NULL THEN
        v_ok := v_ok AND cardinality(n_toolsets) = (
            SELECT count(*) FROM {s}.toolsets WHERE repo = p_number AND hash = ANY (n_toolsets));
    END IF;
    SELECT seg, pos + 1 INTO v_seg, v_pos FROM {s}.commits{cut}
        WHERE repo = p_number AND hash = c_parent;
    IF NOT v_ok OR v_seg IS NULL THEN
        RETURN false;
    END IF;
    UPDATE {s}.refs SET target = r_to[cardinality(r_to)], sum = r_sum
        WHERE repo = p_number AND name = r_name AND target = r_is[1]
        AND NOT EXISTS (
            SELECT FROM {s}.commits{cut} WHERE repo = p_number AND seg = v_seg AND pos = v_pos)
        -- What was erased stays away: see `apply`. One look into the index where nothing was.
        AND (NOT EXISTS (
            SELECT FROM {s}.refs
            WHERE repo = p_number AND name >= 'erasures/' AND name < 'erasures0'
        ) OR NOT EXISTS (
            SELECT FROM unnest(b_hashes) AS u (h) WHERE (
                SELECT repo FROM {s}.refs
                WHERE repo = p_number AND name = 'erasures/' || encode(u.h, 'hex') LIMIT 1
            ) IS NOT NULL));
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO {s}.ref_log{cut}
        SELECT p_number, m.seq, r_name, m.before, m.after, m.batch, m.note, m.log # m.seq
        FROM (
            SELECT u.*, nextval('{s}.number') AS seq
            FROM unnest(r_batch, r_note, r_is, r_to, r_log) AS u (batch, note, before, after, log)
        ) AS m;
    IF b_hashes IS NOT NULL THEN
        INSERT INTO {s}.blobs{cut}
            SELECT p_number, u.h, u.d FROM unnest(b_hashes, b_datas) AS u (h, d)
            ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO {s}.commits{cut}
        SELECT p_number, u.h, v_seg, v_pos + u.n - 1, u.r
        FROM unnest(c_hashes, c_recs) WITH ORDINALITY AS u (h, r, n);
    RETURN true;
END
$body$;
