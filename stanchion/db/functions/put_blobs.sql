-- purpose: store values too large for a row, named by their content; storing the same twice is one row
-- transition: none
-- fenced by: nothing: a blob means nothing until a fenced row names it
-- locks: only new rows, in name order
CREATE FUNCTION put_blobs(p_tenants uuid[], p_sha256 bytea[], p_sizes int[], p_bodies bytea[]) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  -- each once: a batch may bring the same value several times, and a row can't be met twice by one ON CONFLICT
  INSERT INTO blob (tenant_id, sha256, size, body) SELECT DISTINCT ON (x.h, x.t) x.t, x.h, x.s, x.b FROM unnest(p_tenants, p_sha256, p_sizes, p_bodies) x(t, h, s, b) ORDER BY x.h, x.t
  -- stored again: it is about to be named again, so it must not be removed as unused now
  ON CONFLICT (sha256, tenant_id) DO UPDATE SET created_at = clock() WHERE blob.created_at < clock() - interval '1 hour'
$$;
