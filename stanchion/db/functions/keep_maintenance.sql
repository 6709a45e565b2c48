-- purpose: a job has done a part of its work: keep how far it is, and the lease; false: another worker has it
-- transition: none
-- fenced by: the job's fence
-- locks: the job
CREATE FUNCTION keep_maintenance(p_kind text, p_key text, p_tenant uuid, p_fence bigint, p_result jsonb, p_lease_ms int) RETURNS boolean LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
BEGIN
  UPDATE maintenance_job j SET result = p_result, lease_until = clock() + p_lease_ms * interval '1 ms'
  WHERE j.kind = p_kind AND j.key = p_key AND j.tenant_id = p_tenant AND j.fence = p_fence AND j.state = 'running';
  RETURN FOUND;
END $$;
