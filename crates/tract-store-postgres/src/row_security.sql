-- With row-level security every row of another repository is out of reach of every statement, also
-- of one that forgets to ask: without the setting there is nothing to see.
CREATE FUNCTION {s}.this_repo() RETURNS bigint LANGUAGE sql STABLE
    AS $body$ SELECT id FROM {s}.repos WHERE name = current_setting('tract.repo', true) $body$;
ALTER TABLE {s}.repos ENABLE ROW LEVEL SECURITY;
ALTER TABLE {s}.repos FORCE ROW LEVEL SECURITY;
CREATE POLICY this_repo ON {s}.repos
    USING (name = current_setting('tract.repo', true)
        OR current_setting('tract.list', true) = 'on')
    WITH CHECK (name = current_setting('tract.repo', true));
