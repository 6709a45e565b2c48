-- purpose: the text of a kept header, as headers of dead letters are kept: [name, text]
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION header_of(p_headers jsonb, p_name text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = stanchion, pg_temp AS $$
  SELECT h->>1 FROM jsonb_array_elements(p_headers) h WHERE h->>0 = p_name LIMIT 1
$$;
