SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA golden_store;
CREATE FUNCTION golden_store.apply(p_repo text, p_batch bytea, p_note bytea, p_lock_ms integer, p_unsafe boolean, r_name text[], r_sorted integer[], r_expect smallint[], r_is bytea[], r_to bytea[], r_sum bigint[], r_log bigint[], n_commits bytea[], n_blobs bytea[], n_toolsets bytea[], n_tools bytea[], b_hash bytea[], b_data bytea[], c_hash bytea[], c_rec bytea[], c_parent bytea[], c_runs integer[], t_hash bytea[], t_data bytea[], u_hash bytea[], u_schema bytea[], u_key bigint[], u_data bytea[], d_kind smallint[], d_commit bytea[], d_data bytea[]) RETURNS TABLE(status smallint, what text, found bytea, found_sum bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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
BEGIN
    PERFORM set_config('lock_timeout', p_lock_ms::text, true),
        set_config('tract.repo', p_repo, true);
    IF NOT p_unsafe AND current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT id INTO v_repo FROM "golden_store".repos WHERE name = p_repo;
    IF v_repo IS NOT NULL THEN
        -- Writers of one branch queue here; every writer locks in the order of names.
        FOREACH i IN ARRAY r_sorted LOOP
            SELECT target, sum INTO v_target, v_sum FROM "golden_store".refs
                WHERE repo = v_repo AND name = r_name[i] FOR UPDATE;
            v_found[i] := v_target;
            v_sums[i] := v_sum;
        END LOOP;
        -- After the locks: an earlier try that was still under way has ended by now.
        PERFORM 1 FROM "golden_store".ref_log WHERE repo = v_repo AND batch = p_batch LIMIT 1;
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
        PERFORM 1 FROM "golden_store".commits WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'commit'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_blobs LOOP
        PERFORM 1 FROM "golden_store".blobs WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'blob'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_toolsets LOOP
        PERFORM 1 FROM "golden_store".toolsets WHERE repo = v_repo AND hash = v_hash;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 3::smallint, 'toolset'::text, v_hash, NULL::bigint;
            RETURN;
        END IF;
    END LOOP;
    FOREACH v_hash IN ARRAY n_tools LOOP
        PERFORM 1 FROM "golden_store".tools WHERE repo = v_repo AND hash = v_hash LIMIT 1;
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
        INSERT INTO "golden_store".repos (name) VALUES (p_repo) ON CONFLICT DO NOTHING RETURNING id INTO v_repo;
        IF v_repo IS NULL THEN
            RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else made the repository';
        END IF;
    END IF;
    FOREACH i IN ARRAY r_sorted LOOP
        CONTINUE WHEN NOT v_moves[i];
        IF r_to[i] IS NULL THEN
            DELETE FROM "golden_store".refs WHERE repo = v_repo AND name = r_name[i];
        ELSIF v_found[i] IS NULL THEN
            INSERT INTO "golden_store".refs VALUES (v_repo, r_name[i], r_to[i], r_sum[i])
                ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else made the ref';
            END IF;
        ELSE
            UPDATE "golden_store".refs SET target = r_to[i], sum = r_sum[i]
                WHERE repo = v_repo AND name = r_name[i];
        END IF;
    END LOOP;
    FOR i IN 1 .. v_refs LOOP
        CONTINUE WHEN NOT v_moves[i];
        v_seq := nextval('"golden_store".number');
        -- Whoever asked knows neither the number nor what was before: they go into the sum here.
        INSERT INTO "golden_store".ref_log VALUES (v_repo, v_seq, r_name[i], v_found[i], r_to[i], p_batch,
            p_note, r_log[i] # v_seq # coalesce(
                ('x' || left(encode(sha256(v_found[i]), 'hex'), 16))::bit(64)::bigint, 0));
    END LOOP;
    IF cardinality(b_hash) > 0 THEN
        INSERT INTO "golden_store".blobs SELECT v_repo, u.h, u.d FROM unnest(b_hash, b_data) AS u (h, d)
            ON CONFLICT DO NOTHING;
    END IF;
    -- A run is a line of commits, each the first parent of the next.
    FOREACH v_len IN ARRAY c_runs LOOP
        LOOP
            -- What is stored of a line is its begin: whatever is stored, its parent is.
            v_known := 0;
            IF v_len > 1 THEN
                SELECT count(*) INTO v_known FROM "golden_store".commits
                    WHERE repo = v_repo AND hash = ANY (c_hash[v_at : v_at + v_len - 1]);
                EXIT WHEN v_known = v_len;
            END IF;
            i := v_at + v_known;
            v_from_seg := NULL;
            v_from_pos := NULL;
            IF c_parent[i] IS NOT NULL THEN
                SELECT seg, pos INTO v_from_seg, v_from_pos FROM "golden_store".commits
                    WHERE repo = v_repo AND hash = c_parent[i];
            END IF;
            v_seg := NULL;
            IF v_from_seg IS NOT NULL THEN
                -- The unique place is the compare-and-swap on the segment's tip.
                INSERT INTO "golden_store".commits VALUES
                    (v_repo, c_hash[i], v_from_seg, v_from_pos + 1, c_rec[i])
                    ON CONFLICT DO NOTHING;
                IF FOUND THEN
                    v_seg := v_from_seg;
                    v_pos := v_from_pos + 1;
                END IF;
            END IF;
            IF v_seg IS NULL THEN
                PERFORM 1 FROM "golden_store".commits WHERE repo = v_repo AND hash = c_hash[i];
                IF FOUND THEN
                    EXIT WHEN v_len = 1;
                    CONTINUE;
                END IF;
                v_seg := nextval('"golden_store".number');
                v_pos := 0;
                INSERT INTO "golden_store".segments VALUES (v_repo, v_seg, v_from_seg, v_from_pos);
                INSERT INTO "golden_store".commits VALUES (v_repo, c_hash[i], v_seg, 0, c_rec[i])
                    ON CONFLICT DO NOTHING;
                IF NOT FOUND THEN
                    RAISE SQLSTATE '40001' USING MESSAGE = 'somebody else stored the commit';
                END IF;
            END IF;
            IF v_known + 1 < v_len THEN
                INSERT INTO "golden_store".commits
                    SELECT v_repo, u.h, v_seg, v_pos + u.n, u.r
                    FROM unnest(c_hash[i + 1 : v_at + v_len - 1], c_rec[i + 1 : v_at + v_len - 1])
                        WITH ORDINALITY AS u (h, r, n);
            END IF;
            EXIT;
        END LOOP;
        v_at := v_at + v_len;
    END LOOP;
    IF cardinality(t_hash) > 0 THEN
        INSERT INTO "golden_store".toolsets SELECT v_repo, u.h, u.d FROM unnest(t_hash, t_data) AS u (h, d)
            ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(u_hash) > 0 THEN
        INSERT INTO "golden_store".tools
            SELECT v_repo, u.h, u.s, nextval('"golden_store".number'), u.k, u.d
            FROM unnest(u_hash, u_schema, u_key, u_data) AS u (h, s, k, d)
            ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(d_kind) > 0 THEN
        INSERT INTO "golden_store".derived
            SELECT v_repo, u.k, c.seg, c.pos, u.d
            FROM unnest(d_kind, d_commit, d_data) AS u (k, h, d)
            JOIN "golden_store".commits c ON c.repo = v_repo AND c.hash = u.h
            ON CONFLICT (repo, kind, seg, pos) DO UPDATE SET data = excluded.data;
    END IF;
    RETURN QUERY SELECT 0::smallint, NULL::text, NULL::bytea, NULL::bigint;
END
$$;
CREATE FUNCTION golden_store.walk(p_repo text, p_head bytea, p_until bytea, p_limit bigint, p_kind smallint) RETURNS TABLE(hash bytea, rec bytea, stop bytea)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
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
    SELECT id INTO v_repo FROM "golden_store".repos WHERE name = p_repo;
    SELECT c.seg, c.pos INTO v_seg, v_pos FROM "golden_store".commits c
        WHERE c.repo = v_repo AND c.hash = p_head;
    IF p_until IS NOT NULL THEN
        SELECT c.seg, c.pos INTO u_seg, u_pos FROM "golden_store".commits c
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
            SELECT d.pos, d.data INTO s_pos, s_data FROM "golden_store".derived d
                WHERE d.repo = v_repo AND d.kind = p_kind AND d.seg = v_seg
                AND d.pos BETWEEN v_low AND v_pos ORDER BY d.pos DESC LIMIT 1;
            IF FOUND THEN
                v_low := s_pos + 1;
                v_last := true;
            END IF;
        END IF;
        v_read := 0;
        IF v_low <= v_pos THEN
            RETURN QUERY SELECT c.hash, c.rec, NULL::bytea FROM "golden_store".commits c
                WHERE c.repo = v_repo AND c.seg = v_seg
                AND c.pos BETWEEN greatest(v_low, v_pos - v_left + 1) AND v_pos
                ORDER BY c.pos DESC;
            GET DIAGNOSTICS v_read = ROW_COUNT;
        END IF;
        v_left := v_left - v_read;
        IF s_pos IS NOT NULL AND v_read = v_pos - v_low + 1 THEN
            RETURN QUERY SELECT c.hash, NULL::bytea, s_data FROM "golden_store".commits c
                WHERE c.repo = v_repo AND c.seg = v_seg AND c.pos = s_pos;
        END IF;
        EXIT WHEN v_last;
        SELECT g.parent_seg, g.parent_pos INTO v_seg, v_pos FROM "golden_store".segments g
            WHERE g.repo = v_repo AND g.seg = v_seg;
        EXIT WHEN NOT FOUND;
    END LOOP;
END
$$;
SET default_tablespace = '';
CREATE TABLE golden_store.blobs (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (repo);
SET default_table_access_method = heap;
CREATE TABLE golden_store.blobs_0 (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE golden_store.commits (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    seg bigint NOT NULL,
    pos bigint NOT NULL,
    rec bytea NOT NULL
)
PARTITION BY HASH (repo);
CREATE TABLE golden_store.commits_0 (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    seg bigint NOT NULL,
    pos bigint NOT NULL,
    rec bytea NOT NULL
);
CREATE TABLE golden_store.derived (
    repo bigint NOT NULL,
    kind smallint NOT NULL,
    seg bigint NOT NULL,
    pos bigint NOT NULL,
    data bytea NOT NULL
)
PARTITION BY HASH (repo);
CREATE TABLE golden_store.derived_0 (
    repo bigint NOT NULL,
    kind smallint NOT NULL,
    seg bigint NOT NULL,
    pos bigint NOT NULL,
    data bytea NOT NULL
);
CREATE SEQUENCE golden_store.number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE golden_store.ref_log (
    repo bigint NOT NULL,
    seq bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    before bytea,
    after bytea,
    batch bytea NOT NULL,
    note bytea NOT NULL,
    sum bigint NOT NULL
)
PARTITION BY HASH (repo);
CREATE TABLE golden_store.ref_log_0 (
    repo bigint NOT NULL,
    seq bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    before bytea,
    after bytea,
    batch bytea NOT NULL,
    note bytea NOT NULL,
    sum bigint NOT NULL
);
CREATE TABLE golden_store.refs (
    repo bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    target bytea NOT NULL,
    sum bigint NOT NULL
)
WITH (fillfactor='50');
CREATE SEQUENCE golden_store.repo_number
    START WITH 947121096228865
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE golden_store.repos (
    id bigint DEFAULT nextval('golden_store.repo_number'::regclass) NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE golden_store.segments (
    repo bigint NOT NULL,
    seg bigint NOT NULL,
    parent_seg bigint,
    parent_pos bigint
)
PARTITION BY HASH (repo);
CREATE TABLE golden_store.segments_0 (
    repo bigint NOT NULL,
    seg bigint NOT NULL,
    parent_seg bigint,
    parent_pos bigint
);
CREATE TABLE golden_store.tools (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    schema bytea NOT NULL,
    ord bigint NOT NULL,
    name_key bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE golden_store.toolsets (
    repo bigint NOT NULL,
    hash bytea NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE golden_store.tract_store (
    one boolean DEFAULT true NOT NULL,
    format integer NOT NULL,
    partitions integer NOT NULL,
    row_security boolean NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tract_store_one_check CHECK (one)
);
ALTER TABLE ONLY golden_store.blobs ATTACH PARTITION golden_store.blobs_0 FOR VALUES WITH (modulus 1, remainder 0);
ALTER TABLE ONLY golden_store.commits ATTACH PARTITION golden_store.commits_0 FOR VALUES WITH (modulus 1, remainder 0);
ALTER TABLE ONLY golden_store.derived ATTACH PARTITION golden_store.derived_0 FOR VALUES WITH (modulus 1, remainder 0);
ALTER TABLE ONLY golden_store.ref_log ATTACH PARTITION golden_store.ref_log_0 FOR VALUES WITH (modulus 1, remainder 0);
ALTER TABLE ONLY golden_store.segments ATTACH PARTITION golden_store.segments_0 FOR VALUES WITH (modulus 1, remainder 0);
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x14c9553209f9c40faa443d147868855a9b24fd442172851a07171307868becee', '\x7b2263616c6c5f6964223a226331222c22636f6e74656e74223a226170702f76696577732e70793a3838222c226e616d65223a2267726570227d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x1f8ddf98fcd08c0852e866bbb75fcf0df2ce4a3e637f64ba17b39e9af847b98b', '\x227365656e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x23604f599f380901c5f5e222642dac7602eda2714e85d4aed90565e278175174', '\x2274657374732f746573745f617574682e707922');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x25490d8b79d56295fff7c257e84a3d2d51378bef977b2b95cb96c99d7908d3ab', '\x5b7b22617267756d656e7473223a227b5c227061747465726e5c223a205c22646566206c6f67696e5c227d222c226964223a226331222c226e616d65223a2267726570222c2274797065223a22746f6f6c5f63616c6c227d2c7b22617267756d656e7473223a227b5c22636974795c223a205c225ac3bc726963685c227d222c226964223a226332222c226e616d65223a226765745f77656174686572222c2274797065223a22746f6f6c5f63616c6c227d5d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x2e99af815077451e280ac256bf9006abfb0c9d77435887c2e757ae9e0c8f5c4a', '\x22496e206170702f76696577732e70792c206c696e652038382e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x5236daaaef680bca38830775a8f9931fcb68775733561c878fb97a4d783da003', '\x7b2274797065223a202266756e6374696f6e222c202266756e6374696f6e223a207b226e616d65223a202267726570222c20226465736372697074696f6e223a20225365617263682066696c65733a20c3bc20e697a5e69cac222c2022706172616d6574657273223a207b2274797065223a20226f626a656374222c202270726f70657274696573223a207b227061747465726e223a207b2274797065223a2022737472696e67227d2c20226c696d6974223a207b2274797065223a2022696e7465676572222c20226d6178696d756d223a20313030303030302e307d7d2c20227265717569726564223a205b227061747465726e225d7d7d7d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x616a403badef698b51d326e885804f010278735bec812ff4086e032333589754', '\x22446f6e652e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x790d189a1965f251e843a634d2b852511d03c31f711928b84eea08c804e34832', '\x22416e737765722062726965666c792e20c39c6ec3af636f64652c20e697a5e69cace8aa9e2c205c75303030312e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x81020e04c63c067cbfc0b150becc91c46ec870d9cb084202eab9f0d8360ae84d', '\x2241736b656420666f722074686520746573743a2074657374732f746573745f617574682e70792e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\x92b2957e83f20e36e0650513866cf8e29b50d2ada1084975389e3a7bb2a4e748', '\x2253656172636820666f722069742e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xabd7056b4a4be57efaef498d0baa0c96688f56eb3259ccac95d48be673b62e5a', '\x7b2263616c6c5f6964223a226332222c22636f6e74656e74223a226e6f7420666f756e64222c2269735f6572726f72223a747275652c226e616d65223a226765745f77656174686572227d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xaf298085a59e372c36c9f26ec8ab281ed9229314164e37544cc403a49b41f38a', '\x7b2263616c6c5f6964223a226331222c22636f6e74656e74223a226170702f76696577732e70793a38382078787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878222c226e616d65223a2267726570227d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xcb2dfb44e2e581a2b6c3c43d8cd190585f6241d62a9c0d2db1febf84f12f29af', '\x7b226e616d65223a20226765745f77656174686572222c20226465736372697074696f6e223a2022416e7468726f706963207374796c65222c2022696e7075745f736368656d61223a207b2274797065223a20226f626a656374222c202270726f70657274696573223a207b2263697479223a207b2274797065223a2022737472696e67227d7d7d7d');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xd4d47bf8b27a5ee078d5c8fcd1d4ce737251f65de277c0550793379368b425c6', '\x225768657265206973206c6f67696e20646566696e65643f22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xe2be1e3f48e248a8e5e6a2ff08ed3be8407f2927e55ef39a30009d9f57348888', '\x224669782069742e22');
INSERT INTO golden_store.blobs_0 VALUES (947121096228865, '\xfb3c8f0c6dd5173450964f715a9e1dd704ed60b82fc3e13ba6423a2356272da0', '\x22416e642074686520746573743f22');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x5fedd1b62f434428bb7d9efadd02309e15d1fdf978da9d6b04a462abe0b704c1', 6, 0, '\x01c480010000790d189a1965f251e843a634d2b852511d03c31f711928b84eea08c804e34832010082e99181e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xae85a54b2b3ece2f7babad71be59bb1ee04c208ab587277255acaee0d023d633', 6, 1, '\x01809001015fedd1b62f434428bb7d9efadd02309e15d1fdf978da9d6b04a462abe0b704c1077402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0084f28b82e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xc406e2a9f596cea2e80022130e8b490492ac48f6b06fa766d3d519a0dd6acc64', 6, 2, '\x01c4940101ae85a54b2b3ece2f7babad71be59bb1ee04c208ab587277255acaee0d023d63300d4d47bf8b27a5ee078d5c8fcd1d4ce737251f65de277c0550793379368b425c602247b2266223a31652d30372c226e223a31323334353637383930313233343536373839307d7402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0086fb8583e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x46580d7caa83982214a72f2a1d5eb1f206b96060fd271efa63387db8b92c825d', 6, 3, '\x01c4900101c406e2a9f596cea2e80022130e8b490492ac48f6b06fa766d3d519a0dd6acc640092b2957e83f20e36e0650513866cf8e29b50d2ada1084975389e3a7bb2a4e748057402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0188848084e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xf08793c2228054b4897b588ff56b3a978cc124ccd6a8f6ef70f50fdd04b654e7', 6, 4, '\x01c498010146580d7caa83982214a72f2a1d5eb1f206b96060fd271efa63387db8b92c825d0025490d8b79d56295fff7c257e84a3d2d51378bef977b2b95cb96c99d7908d3ab03217b226d6f64656c223a226d2d31222c2274656d7065726174757265223a302e357d7402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a018a8dfa84e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x52c8953393e04e0584806ebc278f12637247f490b7a041b9fedd236976754089', 6, 5, '\x01c4900101f08793c2228054b4897b588ff56b3a978cc124ccd6a8f6ef70f50fdd04b654e7010001f08793c2228054b4897b588ff56b3a978cc124ccd6a8f6ef70f50fdd04b654e7000000af298085a59e372c36c9f26ec8ab281ed9229314164e37544cc403a49b41f38a047402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a028c96f485e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x7cb8b0c7bc2152dbce0ddfa4c791d6759320dd4921e7bf5e95c3c87a10e3ebaa', 6, 6, '\x01c490010152c8953393e04e0584806ebc278f12637247f490b7a041b9fedd236976754089010001f08793c2228054b4897b588ff56b3a978cc124ccd6a8f6ef70f50fdd04b654e7010000abd7056b4a4be57efaef498d0baa0c96688f56eb3259ccac95d48be673b62e5a047402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a028e9fee86e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xae32b272efca48079eaab2c5fec7e56872a0e660452cbef481dabf46afc7e2ec', 6, 7, '\x01c59001017cb8b0c7bc2152dbce0ddfa4c791d6759320dd4921e7bf5e95c3c87a10e3ebaa0252c8953393e04e0584806ebc278f12637247f490b7a041b9fedd23697675408901020152c8953393e04e0584806ebc278f12637247f490b7a041b9fedd2369767540890152c8953393e04e0584806ebc278f12637247f490b7a041b9fedd2369767540890014c9553209f9c40faa443d147868855a9b24fd442172851a07171307868becee047402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0090a8e887e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x9beaf0f82980820281684925e0dc33a2a5bd239203a014dd128b10535c855d49', 6, 8, '\x01c4900101ae32b272efca48079eaab2c5fec7e56872a0e660452cbef481dabf46afc7e2ec002e99af815077451e280ac256bf9006abfb0c9d77435887c2e757ae9e0c8f5c4a037402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0192b1e288e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x8300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf', 6, 9, '\x01c49001019beaf0f82980820281684925e0dc33a2a5bd239203a014dd128b10535c855d4900fb3c8f0c6dd5173450964f715a9e1dd704ed60b82fc3e13ba6423a2356272da0027402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0094badc89e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe271', 6, 10, '\x01c49001018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf0023604f599f380901c5f5e222642dac7602eda2714e85d4aed90565e278175174037402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0196c3d68ae6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xf345add53cc70b24e5782a377e7ab94e361a56a26176127da9e76eca5578106e', 6, 11, '\x0181900101747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710301c406e2a9f596cea2e80022130e8b490492ac48f6b06fa766d3d519a0dd6acc6402010c746865207175657374696f6e01207b22696e737472756374696f6e73223a226b65657020746865206e616d65227d010301c406e2a9f596cea2e80022130e8b490492ac48f6b06fa766d3d519a0dd6acc640001007402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a0098ccd08be6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xcedf1838d47f12a745f9d9870065da1dbad9c9b30e2581d20c0482ed62d59dec', 6, 12, '\x0180900101f345add53cc70b24e5782a377e7ab94e361a56a26176127da9e76eca5578106e07a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f2483325009ad5ca8ce6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x46c90396262d9a895be4f4c828e60edbed5b4343df2e403597adb64f4914ab75', 7, 0, '\x01c49001019beaf0f82980820281684925e0dc33a2a5bd239203a014dd128b10535c855d4900e2be1e3f48e248a8e5e6a2ff08ed3be8407f2927e55ef39a30009d9f57348888027402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a009cdec48de6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x3c4cfa1ffda8b7669fdbe5fb73e8db16f33a0c036f50d8458b2a9c03009ae316', 7, 1, '\x018190010146c90396262d9a895be4f4c828e60edbed5b4343df2e403597adb64f4914ab75030146580d7caa83982214a72f2a1d5eb1f206b96060fd271efa63387db8b92c825d01000001030146580d7caa83982214a72f2a1d5eb1f206b96060fd271efa63387db8b92c825d0001007402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a009ee7be8ee6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x4db49202ab09127ed8ef12af9794b342417df18e020e73aaaa662c6a53ae7f47', 7, 2, '\x01819001023c4cfa1ffda8b7669fdbe5fb73e8db16f33a0c036f50d8458b2a9c03009ae316cedf1838d47f12a745f9d9870065da1dbad9c9b30e2581d20c0482ed62d59dec0601cedf1838d47f12a745f9d9870065da1dbad9c9b30e2581d20c0482ed62d59dec030301c406e2a9f596cea2e80022130e8b490492ac48f6b06fa766d3d519a0dd6acc64000101f345add53cc70b24e5782a377e7ab94e361a56a26176127da9e76eca5578106e00018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf08018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf00000001747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710901747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710000a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332500a0f0b88fe6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\xa753a907035bbfae07bd488fd289050bdc46d5e2a8e899240ed9f7183334503a', 7, 3, '\x01809201014db49202ab09127ed8ef12af9794b342417df18e020e73aaaa662c6a53ae7f4708117b227265766965776564223a747275657da2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332500a2f9b290e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x99decaf8abd851cb9e1728d83cbb3611e5c9758422d2fe38b0841d99cdc6ca81', 7, 4, '\x01c4910101a753a907035bbfae07bd488fd289050bdc46d5e2a8e899240ed9f7183334503a001f8ddf98fcd08c0852e866bbb75fcf0df2ce4a3e637f64ba17b39e9af847b98b000b6f62736572766174696f6e0475736572a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332500a482ad91e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x66bd5f970e8211b2e1d54d4cc7c56ae748949617771c35ac7818b860aafbddba', 7, 5, '\x01c590010199decaf8abd851cb9e1728d83cbb3611e5c9758422d2fe38b0841d99cdc6ca8104028300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710301018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf08018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf00000101747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710901747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe271000000000800000081020e04c63c067cbfc0b150becc91c46ec870d9cb084202eab9f0d8360ae84d03a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332500a68ba792e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x166e5a7b9c54f7a28f8b424c8f5dd19b767053f7037e59823c7b14b90fa3598b', 7, 6, '\x01c492010166bd5f970e8211b2e1d54d4cc7c56ae748949617771c35ac7818b860aafbddba00616a403badef698b51d326e885804f010278735bec812ff4086e032333589754030f746865206c61737420616e73776572a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332501a894a193e6b5b006');
INSERT INTO golden_store.commits_0 VALUES (947121096228865, '\x3f9fce96243874121c9ebe3e1b34870b042e8a3486c67ff7637be9c8ecc1fb15', 7, 7, '\x0181900101166e5a7b9c54f7a28f8b424c8f5dd19b767053f7037e59823c7b14b90fa3598b050166bd5f970e8211b2e1d54d4cc7c56ae748949617771c35ac7818b860aafbddba0003010166bd5f970e8211b2e1d54d4cc7c56ae748949617771c35ac7818b860aafbddba080166bd5f970e8211b2e1d54d4cc7c56ae748949617771c35ac7818b860aafbddba00000001747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe2710901747cd6c537e7443231fca951373f39f5ef28130f676c96f73d6c4b378dabe271000000018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf08018300bf009d536edfdb486ccfc54a0bfaa41475fc454f05dac135fcbefcaa6adf0000a2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f248332500aa9d9b94e6b5b006');
INSERT INTO golden_store.ref_log_0 VALUES (947121096228865, 1, 'HEAD', NULL, '\x0368656164732f6d61696e', '\x13f18d380b1b83e091f84e6a352e5be3', '\x80474b513707b14b6c66ea2e7bb25033953ee0bbda6006000000000000000000000400000000000000696e69740000000000000000', 1414779287413549919);
INSERT INTO golden_store.ref_log_0 VALUES (947121096228865, 2, 'heads/main', NULL, '\x013f9fce96243874121c9ebe3e1b34870b042e8a3486c67ff7637be9c8ecc1fb15', '\x4cd85f257512c73894f6d1eb1fac8125', '\x5ef9ab1d0bac07ddbdc2baf6fa0fe96c8374e1bbda60060000000000000000000005000000000000006170706c790000000000000000', -3266044384785335835);
INSERT INTO golden_store.ref_log_0 VALUES (947121096228865, 3, 'heads/old', NULL, '\x019beaf0f82980820281684925e0dc33a2a5bd239203a014dd128b10535c855d49', '\x4cd85f257512c73894f6d1eb1fac8125', '\x5ef9ab1d0bac07ddbdc2baf6fa0fe96c8374e1bbda60060000000000000000000005000000000000006170706c790000000000000000', -2280058817129258555);
INSERT INTO golden_store.ref_log_0 VALUES (947121096228865, 4, 'heads/side', NULL, '\x01cedf1838d47f12a745f9d9870065da1dbad9c9b30e2581d20c0482ed62d59dec', '\x4cd85f257512c73894f6d1eb1fac8125', '\x5ef9ab1d0bac07ddbdc2baf6fa0fe96c8374e1bbda60060000000000000000000005000000000000006170706c790000000000000000', -2218296515619235423);
INSERT INTO golden_store.ref_log_0 VALUES (947121096228865, 5, 'tags/v1', NULL, '\x01166e5a7b9c54f7a28f8b424c8f5dd19b767053f7037e59823c7b14b90fa3598b', '\x4cd85f257512c73894f6d1eb1fac8125', '\x5ef9ab1d0bac07ddbdc2baf6fa0fe96c8374e1bbda60060000000000000000000005000000000000006170706c790000000000000000', 8191495581624173405);
INSERT INTO golden_store.refs VALUES (947121096228865, 'HEAD', '\x0368656164732f6d61696e', 5858780773819099334);
INSERT INTO golden_store.refs VALUES (947121096228865, 'heads/main', '\x013f9fce96243874121c9ebe3e1b34870b042e8a3486c67ff7637be9c8ecc1fb15', 2917884965726083057);
INSERT INTO golden_store.refs VALUES (947121096228865, 'heads/old', '\x019beaf0f82980820281684925e0dc33a2a5bd239203a014dd128b10535c855d49', -6948118399723491321);
INSERT INTO golden_store.refs VALUES (947121096228865, 'heads/side', '\x01cedf1838d47f12a745f9d9870065da1dbad9c9b30e2581d20c0482ed62d59dec', 7410246232013382764);
INSERT INTO golden_store.refs VALUES (947121096228865, 'tags/v1', '\x01166e5a7b9c54f7a28f8b424c8f5dd19b767053f7037e59823c7b14b90fa3598b', 2453030039359036151);
INSERT INTO golden_store.repos VALUES (947121096228865, 'default');
INSERT INTO golden_store.segments_0 VALUES (947121096228865, 6, NULL, NULL);
INSERT INTO golden_store.segments_0 VALUES (947121096228865, 7, 6, 8);
INSERT INTO golden_store.tools VALUES (947121096228865, '\xd0d9b6ed2779be1c3897727e292336818b6eb68aeb96ef351aac17ac535e0325', '\x5236daaaef680bca38830775a8f9931fcb68775733561c878fb97a4d783da003', 8, -364866615683343109, '\xe18b6688fb592926ae85a54b2b3ece2f7babad71be59bb1ee04c208ab587277255acaee0d023d633827c2130d760060067726570');
INSERT INTO golden_store.tools VALUES (947121096228865, '\xacd9bf46d516d28a9e0240bf9e58a3ee18d85de96acad60180299c4ac967637e', '\xcb2dfb44e2e581a2b6c3c43d8cd190585f6241d62a9c0d2db1febf84f12f29af', 9, -2074409081347056896, '\x768143caa0730620ae85a54b2b3ece2f7babad71be59bb1ee04c208ab587277255acaee0d023d633827c2130d76006006765745f77656174686572');
INSERT INTO golden_store.toolsets VALUES (947121096228865, '\x7402cf4eeb6c1367c0748d31cd2ea937390473218e9891ac6df1cf90295ceb9a', '\xd0d9b6ed2779be1c3897727e292336818b6eb68aeb96ef351aac17ac535e03255236daaaef680bca38830775a8f9931fcb68775733561c878fb97a4d783da003acd9bf46d516d28a9e0240bf9e58a3ee18d85de96acad60180299c4ac967637ecb2dfb44e2e581a2b6c3c43d8cd190585f6241d62a9c0d2db1febf84f12f29af');
INSERT INTO golden_store.toolsets VALUES (947121096228865, '\xa2f3ae9fee131648f5747fe6d39efd326998ec8bd6b0ef54f8a31272f2483325', '\xd0d9b6ed2779be1c3897727e292336818b6eb68aeb96ef351aac17ac535e03255236daaaef680bca38830775a8f9931fcb68775733561c878fb97a4d783da003');
INSERT INTO golden_store.tract_store VALUES (true, 1, 1, false, '2026-11-22 10:13:51.322287+00');
SELECT pg_catalog.setval('golden_store.number', 9, true);
SELECT pg_catalog.setval('golden_store.repo_number', 947121096228865, true);
ALTER TABLE ONLY golden_store.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (repo, hash);
ALTER TABLE ONLY golden_store.blobs_0
    ADD CONSTRAINT blobs_0_pkey PRIMARY KEY (repo, hash);
ALTER TABLE ONLY golden_store.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (repo, hash);
ALTER TABLE ONLY golden_store.commits_0
    ADD CONSTRAINT commits_0_pkey PRIMARY KEY (repo, hash);
ALTER TABLE ONLY golden_store.commits
    ADD CONSTRAINT commits_repo_seg_pos_key UNIQUE (repo, seg, pos);
ALTER TABLE ONLY golden_store.commits_0
    ADD CONSTRAINT commits_0_repo_seg_pos_key UNIQUE (repo, seg, pos);
ALTER TABLE ONLY golden_store.derived
    ADD CONSTRAINT derived_pkey PRIMARY KEY (repo, kind, seg, pos);
ALTER TABLE ONLY golden_store.derived_0
    ADD CONSTRAINT derived_0_pkey PRIMARY KEY (repo, kind, seg, pos);
ALTER TABLE ONLY golden_store.ref_log
    ADD CONSTRAINT ref_log_pkey PRIMARY KEY (repo, seq);
ALTER TABLE ONLY golden_store.ref_log_0
    ADD CONSTRAINT ref_log_0_pkey PRIMARY KEY (repo, seq);
ALTER TABLE ONLY golden_store.ref_log
    ADD CONSTRAINT ref_log_repo_batch_name_key UNIQUE (repo, batch, name);
ALTER TABLE ONLY golden_store.ref_log_0
    ADD CONSTRAINT ref_log_0_repo_batch_name_key UNIQUE (repo, batch, name);
ALTER TABLE ONLY golden_store.refs
    ADD CONSTRAINT refs_pkey PRIMARY KEY (repo, name);
ALTER TABLE ONLY golden_store.repos
    ADD CONSTRAINT repos_name_key UNIQUE (name);
ALTER TABLE ONLY golden_store.repos
    ADD CONSTRAINT repos_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden_store.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (repo, seg);
ALTER TABLE ONLY golden_store.segments_0
    ADD CONSTRAINT segments_0_pkey PRIMARY KEY (repo, seg);
ALTER TABLE ONLY golden_store.tools
    ADD CONSTRAINT tools_pkey PRIMARY KEY (repo, hash, schema);
ALTER TABLE ONLY golden_store.toolsets
    ADD CONSTRAINT toolsets_pkey PRIMARY KEY (repo, hash);
ALTER TABLE ONLY golden_store.tract_store
    ADD CONSTRAINT tract_store_pkey PRIMARY KEY (one);
CREATE INDEX ref_log_name ON ONLY golden_store.ref_log USING btree (repo, name, seq);
CREATE INDEX ref_log_0_repo_name_seq_idx ON golden_store.ref_log_0 USING btree (repo, name, seq);
CREATE INDEX tools_name ON golden_store.tools USING btree (repo, name_key);
ALTER INDEX golden_store.blobs_pkey ATTACH PARTITION golden_store.blobs_0_pkey;
ALTER INDEX golden_store.commits_pkey ATTACH PARTITION golden_store.commits_0_pkey;
ALTER INDEX golden_store.commits_repo_seg_pos_key ATTACH PARTITION golden_store.commits_0_repo_seg_pos_key;
ALTER INDEX golden_store.derived_pkey ATTACH PARTITION golden_store.derived_0_pkey;
ALTER INDEX golden_store.ref_log_pkey ATTACH PARTITION golden_store.ref_log_0_pkey;
ALTER INDEX golden_store.ref_log_repo_batch_name_key ATTACH PARTITION golden_store.ref_log_0_repo_batch_name_key;
ALTER INDEX golden_store.ref_log_name ATTACH PARTITION golden_store.ref_log_0_repo_name_seq_idx;
ALTER INDEX golden_store.segments_pkey ATTACH PARTITION golden_store.segments_0_pkey;
