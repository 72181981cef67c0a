-- Writes what nearly every batch is, in few statements: commits in a line on a stored one, their blobs,
-- and one ref that is expected somewhere and moves. For the repository of a known number, on its
-- partitions, without looking for them among all.
--
-- Whoever calls knows what the ref is before, so its hash is in the log's sum already.
--
-- Answers nothing when it is done. Where anything is not as it should be, nothing is written yet, and
-- `apply` decides; its answer follows. What somebody else did meanwhile is a unique violation.
--
-- The first commit and the first blob stand for themselves, and lists are null instead of empty: each
-- array is unpacked when a function is entered.
--
-- What it takes, answers and does stays: another way of writing gets another name.
CREATE OR REPLACE FUNCTION {s}.append{cut}(
    p_repo text, p_number bigint, p_batch bytea, p_note bytea, p_lock_ms integer, p_unsafe boolean,
    r_name text, r_is bytea, r_to bytea, r_sum bigint, r_log bigint,
    n_blobs bytea[], n_toolsets bytea[],
    c_parent bytea, c_hash bytea, c_rec bytea, c_hashes bytea[], c_recs bytea[],
    b_hash bytea, b_data bytea, b_hashes bytea[], b_datas bytea[]
) RETURNS bytea[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $body$
#variable_conflict use_column
DECLARE
    v_set text;
    v_seg bigint;
    v_pos bigint;
    v_seq bigint;
    v_ok boolean := true;
BEGIN
    v_set := set_config('lock_timeout', p_lock_ms::text, true);{own}
    -- A sweep holds this lock alone, and so does an erasure: nothing that is read from here on is
    -- deleted before the end, and what is not erased now is not erased before the end.
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
    IF v_ok AND v_seg IS NOT NULL THEN
        -- Whoever waits here for an earlier try of the same batch finds the ref elsewhere then. Where it
        -- has come back since that try went through, the log's row is a unique violation.
        UPDATE {s}.refs SET target = r_to, sum = r_sum
            WHERE repo = p_number AND name = r_name AND target = r_is
            AND NOT EXISTS (
                SELECT FROM {s}.commits{cut} WHERE repo = p_number AND seg = v_seg AND pos = v_pos)
            -- What was erased stays away: see `apply`. One look into the index where nothing was.
            AND (NOT EXISTS (
                SELECT FROM {s}.refs
                WHERE repo = p_number AND name >= 'erasures/' AND name < 'erasures0'
            ) OR NOT EXISTS (
                SELECT FROM unnest(b_hash || b_hashes) AS u (h) WHERE (
                    SELECT repo FROM {s}.refs
                    WHERE repo = p_number AND name = 'erasures/' || encode(u.h, 'hex') LIMIT 1
                ) IS NOT NULL));
        IF FOUND THEN
            v_seq := nextval('{s}.number');
            r_log := r_log # v_seq;
            -- Places and numbers are unique, so that a race ends here, and takes all back. The main
            -- statement is carried out first: blobs before commits, as everywhere.
            IF c_hashes IS NULL AND b_hashes IS NULL AND b_hash IS NOT NULL THEN
                WITH log AS (
                    INSERT INTO {s}.ref_log{cut} VALUES
                        (p_number, v_seq, r_name, r_is, r_to, p_batch, p_note, r_log)
                ), line AS (
                    INSERT INTO {s}.commits{cut} VALUES
                        (p_number, c_hash, v_seg, v_pos, c_rec)
                )
                INSERT INTO {s}.blobs{cut} VALUES (p_number, b_hash, b_data)
                    ON CONFLICT DO NOTHING;
            ELSE
                INSERT INTO {s}.ref_log{cut} VALUES
                    (p_number, v_seq, r_name, r_is, r_to, p_batch, p_note, r_log);
                INSERT INTO {s}.blobs{cut}
                    SELECT p_number, u.h, u.d
                    FROM unnest(b_hash || b_hashes, b_data || b_datas) AS u (h, d)
                    WHERE u.h IS NOT NULL
                    ON CONFLICT DO NOTHING;
                INSERT INTO {s}.commits{cut}
                    SELECT p_number, u.h, v_seg, v_pos + u.n - 1, u.r
                    FROM unnest(c_hash || c_hashes, c_rec || c_recs)
                        WITH ORDINALITY AS u (h, r, n);
            END IF;
            RETURN NULL;
        END IF;
    END IF;
    RETURN (
        SELECT ARRAY[int2send(status), convert_to(what, 'UTF8'), found, int8send(found_sum)]
        FROM {s}.apply(
            p_repo, p_batch, p_note, p_lock_ms, p_unsafe,
            ARRAY[r_name], ARRAY[1], ARRAY[2::smallint], ARRAY[r_is], ARRAY[r_to],
            ARRAY[r_sum],
            ARRAY[r_log # ('x' || left(encode(sha256(r_is), 'hex'), 16))::bit(64)::bigint],
            ARRAY[c_parent], coalesce(n_blobs, '{}'), coalesce(n_toolsets, '{}'), '{}',
            CASE WHEN b_hash IS NULL THEN '{}' ELSE b_hash || b_hashes END,
            CASE WHEN b_hash IS NULL THEN '{}' ELSE b_data || b_datas END,
            c_hash || c_hashes, c_rec || c_recs,
            CASE WHEN c_hashes IS NULL THEN ARRAY[c_parent]
                ELSE ARRAY[c_parent, c_hash] || c_hashes[: cardinality(c_hashes) - 1] END,
            ARRAY[1 + coalesce(cardinality(c_hashes), 0)],
            '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'));
END
$body$;
