-- Writes a batch: all of it, or nothing. One statement, so one round trip and one transaction.
-- Answers (0) done, and where a ref moved (0, partition of the log, null, number of the repository);
-- (1) already; (2, ref, what it is, its checksum) conflict; (3, kind, hash) missing. What somebody else
-- did meanwhile is raised as 40001: try again. A blob that was erased and is brought or needed is raised
-- as TR001, with its hash as the detail: builds that know no erasure show the message.
--
-- A ref `erasures/HASH` says that the blob is erased: making the ref deletes the blob. Such a batch holds
-- the repository's lock alone, so that every write is either done before, and what it brought is
-- deleted, or sees the ref. Names from 'erasures/' to 'erasures0' are those of that folder.
CREATE OR REPLACE FUNCTION {s}.apply(
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
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $body$
#variable_conflict use_column
DECLARE
    v_repo bigint;
    v_refs integer := cardinality(r_name);
    v_found bytea[] := '{}';
    v_moves boolean[] := '{}';
    v_any boolean := false;
    v_target bytea;
    v_sum bigint;
    v_sums bigint[] := '{}';
    v_seq bigint;
    v_hash bytea;
    i integer;
    v_at integer := 1;
    v_len integer;
    v_known integer;
    v_seg bigint;
    v_pos bigint;
    v_from_seg bigint;
    v_from_pos bigint;
    v_set text;
    v_log text;
    v_erases boolean := false;
    v_erased bytea[] := '{}';
BEGIN
    FOR i IN 1 .. v_refs LOOP
        v_erases := v_erases
            OR (r_to[i] IS NOT NULL AND r_name[i] ~ '^erasures/[0-9a-f]{64}$');
    END LOOP;
    -- An assignment, which is no statement of its own.
    v_set := set_config('lock_timeout', p_lock_ms::text, true);
    v_set := set_config('tract.repo', p_repo, true);
    IF NOT p_unsafe AND current_setting('synchronous_commit') = 'off' THEN
        v_set := set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT id INTO v_repo FROM {s}.repos WHERE name = p_repo;
    IF v_repo IS NOT NULL THEN
        -- A sweep holds this lock alone, so nothing that is read from here on is deleted before the
        -- end. Before the numbers of the log are given out: a sweep compares the last one.
        IF v_erases THEN
            v_set := pg_advisory_xact_lock(v_repo);
        ELSE
            v_set := pg_advisory_xact_lock_shared(v_repo);
        END IF;
        -- Writers of one branch queue here; every writer locks in the order of names.
        FOREACH i IN ARRAY r_sorted LOOP
            SELECT target, sum INTO v_target, v_sum FROM {s}.refs
                WHERE repo = v_repo AND name = r_name[i] FOR UPDATE;
            v_found[i] := v_target;
            v_sums[i] := v_sum;
        END LOOP;
        -- After the locks: an earlier try that was still under way has ended by now.
        PERFORM 1 FROM {s}.ref_log WHERE repo = v_repo AND batch = p_batch LIMIT 1;
        IF FOUND THEN
            RETURN QUERY SELECT 1::smallint, NULL::text, NULL::bytea, NULL::bigint;
            RETURN;
        END IF;
    END IF;
    FOR i IN 1 .. v_refs LOOP
        v_moves[i] := v_found[i] IS DISTINCT FROM r_to[i];
        IF v_moves[i] THEN
            v_any := true;
            IF (r_expect[i] = 1 AND v_found[i] IS NOT NULL)
                OR (r_expect[i] = 2 AND v_found[i] IS DISTINCT FROM r_is[i])
            THEN
                RETURN QUERY SELECT 2::smallint, r_name[i], v_found[i], v_sums[i];
                RETURN;
            END IF;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_commits LOOP
        PERFORM 1 FROM {s}.commits WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'commit'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_blobs LOOP
        PERFORM 1 FROM {s}.blobs WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            PERFORM 1 FROM {s}.refs
                WHERE repo = v_repo AND name = 'erasures/' || encode(v_hash, 'hex');
            IF FOUND THEN
                RAISE SQLSTATE 'TR001' USING
                    MESSAGE = format('blob %s was erased', encode(v_hash, 'hex')),
                    DETAIL = encode(v_hash, 'hex');
            END IF;
            RETURN QUERY SELECT 3::smallint, 'blob'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_toolsets LOOP
        PERFORM 1 FROM {s}.toolsets WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'toolset'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_tools LOOP
        PERFORM 1 FROM {s}.tools WHERE repo = v_repo AND hash = v_hash LIMIT 1;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'tool'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    IF NOT v_any AND cardinality(b_hash) + cardinality(c_hash) + cardinality(t_hash)
        + cardinality(u_hash) + cardinality(d_kind) = 0
    THEN
        RETURN QUERY SELECT 0::smallint, NULL::text, NULL::bytea, NULL::bigint;
        RETURN;
    END IF;
    IF v_repo IS NULL THEN
        INSERT INTO {s}.repos (name) VALUES (p_repo) ON CONFLICT DO NOTHING RETURNING id INTO v_repo;
        IF v_repo IS NULL THEN
            RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else made the repository';
        END IF;
    END IF;
    FOREACH i IN ARRAY r_sorted LOOP
        CONTINUE WHEN NOT v_moves[i];
        IF r_to[i] IS NULL THEN
            DELETE FROM {s}.refs WHERE repo = v_repo AND name = r_name[i];
        ELSIF v_found[i] IS NULL THEN
            INSERT INTO {s}.refs VALUES (v_repo, r_name[i], r_to[i], r_sum[i])
                ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else made the ref';
            END IF;
        ELSE
            UPDATE {s}.refs SET target = r_to[i], sum = r_sum[i]
                WHERE repo = v_repo AND name = r_name[i];
        END IF;
    END LOOP;
    FOR i IN 1 .. v_refs LOOP
        CONTINUE WHEN NOT v_moves[i];
        IF r_to[i] IS NOT NULL AND r_name[i] ~ '^erasures/[0-9a-f]{64}$' THEN
            v_erased := v_erased || decode(substr(r_name[i], 10), 'hex');
        END IF;
        v_seq := nextval('{s}.number');
        -- Whoever asked knows neither the number nor what was before: they go into the sum here.
        INSERT INTO {s}.ref_log VALUES (v_repo, v_seq, r_name[i], v_found[i], r_to[i], p_batch,
            p_note, r_log[i] # v_seq # coalesce(
                ('x' || left(encode(sha256(v_found[i]), 'hex'), 16))::bit(64)::bigint, 0))
            RETURNING tableoid::regclass::text INTO v_log;
    END LOOP;
    IF cardinality(v_erased) > 0 THEN
        DELETE FROM {s}.blobs WHERE repo = v_repo AND hash = ANY (v_erased);
    END IF;
    IF cardinality(b_hash) > 0 THEN
        -- After the refs have moved: what the batch erases it may not bring, and what it allows again
        -- it may.
        IF EXISTS (
            SELECT FROM {s}.refs
            WHERE repo = v_repo AND name >= 'erasures/' AND name < 'erasures0')
        THEN
            SELECT u.h INTO v_hash FROM unnest(b_hash) AS u (h) WHERE (
                SELECT repo FROM {s}.refs
                WHERE repo = v_repo AND name = 'erasures/' || encode(u.h, 'hex') LIMIT 1
            ) IS NOT NULL LIMIT 1;
            IF FOUND THEN
                RAISE SQLSTATE 'TR001' USING
                    MESSAGE = format('blob %s was erased', encode(v_hash, 'hex')),
                    DETAIL = encode(v_hash, 'hex');
            END IF;
        END IF;
        INSERT INTO {s}.blobs SELECT v_repo, u.h, u.d FROM unnest(b_hash, b_data) AS u (h, d)
            ON CONFLICT DO NOTHING;
    END IF;
    -- A run is a line of commits, each the first parent of the next.
    FOREACH v_len IN ARRAY c_runs LOOP
        LOOP
            -- What is stored of a line is its begin: whatever is stored, its parent is.
            v_known := 0;
            IF v_len > 1 THEN
                SELECT count(*) INTO v_known FROM {s}.commits
                    WHERE repo = v_repo AND hash = ANY (c_hash[v_at : v_at + v_len - 1]);
                EXIT WHEN v_known = v_len;
            END IF;
            i := v_at + v_known;
            v_from_seg := NULL;
            v_from_pos := NULL;
            IF c_parent[i] IS NOT NULL THEN
                SELECT seg, pos INTO v_from_seg, v_from_pos FROM {s}.commits
                    WHERE repo = v_repo AND hash = c_parent[i];
            END IF;
            v_seg := NULL;
            IF v_from_seg IS NOT NULL THEN
                -- The unique place is the compare-and-swap on the segment's tip.
                INSERT INTO {s}.commits VALUES
                    (v_repo, c_hash[i], v_from_seg, v_from_pos + 1, c_rec[i])
                    ON CONFLICT DO NOTHING;
                IF FOUND THEN
                    v_seg := v_from_seg;
                    v_pos := v_from_pos + 1;
                END IF;
            END IF;
            IF v_seg IS NULL THEN
                PERFORM 1 FROM {s}.commits WHERE repo = v_repo AND hash = c_hash[i];
                IF FOUND THEN
                    EXIT WHEN v_len = 1;
                    CONTINUE;
                END IF;
                v_seg := nextval('{s}.number');
                v_pos := 0;
                INSERT INTO {s}.segments VALUES (v_repo, v_seg, v_from_seg, v_from_pos);
                INSERT INTO {s}.commits VALUES (v_repo, c_hash[i], v_seg, 0, c_rec[i])
                    ON CONFLICT DO NOTHING;
                IF NOT FOUND THEN
                    RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else stored the commit';
                END IF;
            END IF;
            IF v_known + 1 < v_len THEN
                INSERT INTO {s}.commits
                    SELECT v_repo, u.h, v_seg, v_pos + u.n, u.r
                    FROM unnest(c_hash[i + 1 : v_at + v_len - 1], c_rec[i + 1 : v_at + v_len - 1])
                        WITH ORDINALITY AS u (h, r, n);
            END IF;
            EXIT;
        END LOOP;
        v_at := v_at + v_len;
    END LOOP;
    IF cardinality(t_hash) > 0 THEN
        INSERT INTO {s}.toolsets SELECT v_repo, u.h, u.d FROM unnest(t_hash, t_data) AS u (h, d)
            ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(u_hash) > 0 THEN
        INSERT INTO {s}.tools
            SELECT v_repo, u.h, u.s, nextval('{s}.number'), u.k, u.d
            FROM unnest(u_hash, u_schema, u_key, u_data) AS u (h, s, k, d)
            ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(d_kind) > 0 THEN
        INSERT INTO {s}.derived
            SELECT v_repo, u.k, c.seg, c.pos, u.d
            FROM unnest(d_kind, d_commit, d_data) AS u (k, h, d)
            JOIN {s}.commits c ON c.repo = v_repo AND c.hash = u.h
            ON CONFLICT (repo, kind, seg, pos) DO UPDATE SET data = excluded.data;
    END IF;
    -- A write that stores objects and moves no ref is counted: see `sweep.sql`.
    IF v_log IS NULL AND cardinality(b_hash) + cardinality(c_hash) + cardinality(t_hash)
        + cardinality(u_hash) > 0
    THEN
        INSERT INTO {s}.segments VALUES (v_repo, -nextval('{s}.number'), NULL, NULL);
    END IF;
    RETURN QUERY SELECT 0::smallint, v_log, NULL::bytea,
        CASE WHEN v_log IS NOT NULL THEN v_repo END;
END
$body$;

-- Walks first parents by place, newest first: a range of each segment, then its parent's segment.
-- The last row may be one without a record: the derived row that ended the walk.
CREATE OR REPLACE FUNCTION {s}.walk(
    p_repo text, p_head bytea, p_until bytea, p_limit bigint, p_kind smallint
) RETURNS TABLE (hash bytea, rec bytea, stop bytea)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $body$
#variable_conflict use_column
DECLARE
    v_repo bigint;
    v_seg bigint;
    v_pos bigint;
    v_low bigint;
    v_left bigint := p_limit;
    v_read bigint;
    v_last boolean;
    u_seg bigint;
    u_pos bigint;
    s_pos bigint;
    s_data bytea;
BEGIN
    PERFORM set_config('tract.repo', p_repo, true);
    SELECT id INTO v_repo FROM {s}.repos WHERE name = p_repo;
    SELECT c.seg, c.pos INTO v_seg, v_pos FROM {s}.commits c
        WHERE c.repo = v_repo AND c.hash = p_head;
    IF p_until IS NOT NULL THEN
        SELECT c.seg, c.pos INTO u_seg, u_pos FROM {s}.commits c
            WHERE c.repo = v_repo AND c.hash = p_until;
    END IF;
    WHILE v_seg IS NOT NULL AND v_left > 0 LOOP
        v_low := 0;
        v_last := false;
        s_pos := NULL;
        IF u_seg = v_seg AND u_pos <= v_pos THEN
            v_low := u_pos + 1;
            v_last := true;
        END IF;
        IF p_kind IS NOT NULL THEN
            SELECT d.pos, d.data INTO s_pos, s_data FROM {s}.derived d
                WHERE d.repo = v_repo AND d.kind = p_kind AND d.seg = v_seg
                AND d.pos BETWEEN v_low AND v_pos ORDER BY d.pos DESC LIMIT 1;
            IF FOUND THEN
                v_low := s_pos + 1;
                v_last := true;
            END IF;
        END IF;
        v_read := 0;
        IF v_low <= v_pos THEN
            RETURN QUERY SELECT c.hash, c.rec, NULL::bytea FROM {s}.commits c
                WHERE c.repo = v_repo AND c.seg = v_seg
                AND c.pos BETWEEN greatest(v_low, v_pos - v_left + 1) AND v_pos
                ORDER BY c.pos DESC;
            GET DIAGNOSTICS v_read = ROW_COUNT;
        END IF;
        v_left := v_left - v_read;
        IF s_pos IS NOT NULL AND v_read = v_pos - v_low + 1 THEN
            RETURN QUERY SELECT c.hash, NULL::bytea, s_data FROM {s}.commits c
                WHERE c.repo = v_repo AND c.seg = v_seg AND c.pos = s_pos;
        END IF;
        EXIT WHEN v_last;
        SELECT g.parent_seg, g.parent_pos INTO v_seg, v_pos FROM {s}.segments g
            WHERE g.repo = v_repo AND g.seg = v_seg;
        EXIT WHEN NOT FOUND;
    END LOOP;
END
$body$;
