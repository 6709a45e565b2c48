-- purpose: what settled after its join had opened is kept, and marked late for that join: its Results never change
-- transition: none
-- fenced by: the caller settled these steps, and holds the barrier
-- locks: the caller holds the steps
CREATE FUNCTION mark_late(b barrier, p_done uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = stanchion, pg_temp AS $$
DECLARE
  v_late uuid[];
BEGIN
  WITH u AS (
    UPDATE step s SET late_for = s.late_for || b.barrier_id WHERE s.step_id = ANY (p_done) AND b.barrier_id = ANY (s.feeds) AND b.barrier_id <> ALL (coalesce(s.late_for, '{}')) RETURNING s.step_id
  ) SELECT array_agg(u.step_id) INTO v_late FROM u;
  UPDATE result r SET late = true WHERE r.step_id = ANY (v_late) AND NOT r.late;
END $$;
