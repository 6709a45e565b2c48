-- purpose: why a person has no say about one approval: its state unless it is open, else what no_say says; NULL: it waits for them
-- transition: none
-- fenced by: nothing: a vote looks again, under the lock
-- locks: none
CREATE FUNCTION say_of(p_tenant uuid, p_approval uuid, p_person uuid) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN a.state <> 'requested' THEN a.state WHEN a.expires_at <= clock() THEN 'expired' ELSE no_say(a, p_person) END
  FROM approval a WHERE a.approval_id = p_approval AND a.tenant_id = p_tenant
$$;
