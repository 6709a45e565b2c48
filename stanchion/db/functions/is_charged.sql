-- purpose: whether all that an operation costs is booked, and not given back
-- transition: none
-- fenced by: nothing: whoever acts on the answer holds the operation
-- locks: none
CREATE FUNCTION is_charged(o operation) RETURNS boolean LANGUAGE sql STABLE SET search_path = stanchion, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM jsonb_each_text(o.cost) c
    WHERE c.value::numeric <> coalesce((SELECT sum(x.amount) FROM spending x WHERE x.operation_id = o.operation_id AND x.tenant_id = o.tenant_id AND x.unit = c.key), 0))
$$;
