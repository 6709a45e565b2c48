-- purpose: the input of a step, to the holder of another step of the same run: a further round starts from it
-- transition: none
-- fenced by: the asking step's fence
-- locks: none
CREATE FUNCTION input_of(p_step uuid, p_fence bigint, p_of uuid) RETURNS TABLE (input jsonb, input_blob bytea) LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT o.input, o.input_blob FROM step s, step o WHERE s.step_id = p_step AND s.fence = p_fence AND o.step_id = p_of AND o.run_id = s.run_id
$$;
