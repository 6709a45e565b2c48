-- purpose: an approval that somebody decides, changes or takes back, held together with the step that waits for it
-- transition: none
-- fenced by: nothing: what is decided is looked at under the lock
-- locks: the step, then the approval
CREATE FUNCTION hold_approval(p_tenant uuid, p_approval uuid) RETURNS approval LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  a approval;
BEGIN
  SELECT * INTO a FROM approval x WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant;
  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'ST010', MESSAGE = 'E-FIND-01 there is no such approval in this tenant'; END IF;
  PERFORM FROM step s WHERE s.step_id = a.step_id AND s.tenant_id = p_tenant FOR NO KEY UPDATE;
  SELECT * INTO a FROM approval x WHERE x.approval_id = p_approval AND x.tenant_id = p_tenant FOR NO KEY UPDATE;
  RETURN a;
END $$;
