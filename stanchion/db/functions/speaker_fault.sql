-- purpose: why somebody may not say this about an approval; NULL when they may. What somebody wants to know is answered by whoever works with tasks, also by who asked for it
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION speaker_fault(a approval, p_person uuid, p_vote text) RETURNS text LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT CASE WHEN p_vote <> 'answer' THEN voter_fault(a, p_person)
    WHEN NOT EXISTS (SELECT FROM person p WHERE p.person_id = p_person AND p.tenant_id = a.tenant_id AND p.disabled_at IS NULL AND p.role <> 'viewer') THEN 'answer' END
$$;
