-- purpose: the slot of a join that a branch is counted in, by its index: neighbours share one, so that a batch touches few
-- transition: none
-- fenced by: nothing
-- locks: none
CREATE FUNCTION slot_of(p_idx int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (p_idx / limits.SLOT_RUN) % limits.BARRIER_SLOTS $$;
