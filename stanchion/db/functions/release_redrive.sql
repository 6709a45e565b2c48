-- purpose: a parked message could not be sent after all: it may be redriven later
-- transition: none
-- fenced by: nothing
-- locks: the letter's row
CREATE FUNCTION release_redrive(p_id uuid) RETURNS void LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  UPDATE dead_letter SET redriven_at = NULL WHERE dead_letter_id = p_id
$$;
