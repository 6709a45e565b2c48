-- purpose: park messages that can't be handled, with their bytes, position and reason; parking the same twice is one row
-- transition: none
-- fenced by: nothing
-- locks: only new rows
CREATE FUNCTION bury(p_letters jsonb) RETURNS int LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_n int;
BEGIN
  INSERT INTO dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)
  SELECT x.tenant_id, x.topic, x.partition, x."offset", decode(x.key, 'base64'), decode(x.value, 'base64'), x.headers, x.code, x.reason
  FROM jsonb_to_recordset(p_letters) AS x(tenant_id uuid, topic text, partition int, "offset" bigint, key text, value text, headers jsonb, code text, reason text)
  WHERE NOT EXISTS (SELECT FROM dead_letter d WHERE d.topic = x.topic AND d.partition = x.partition AND d."offset" = x."offset" AND d.value IS NOT DISTINCT FROM decode(x.value, 'base64'));
  GET DIAGNOSTICS v_n = ROW_COUNT;
  RETURN v_n;
END $$;
