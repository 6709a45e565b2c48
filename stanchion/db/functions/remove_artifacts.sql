-- purpose: remove versions whose task has lost its payloads, unless they are pinned; a part at a time, since each takes a lock
-- transition: artifact_version available -> deleted
-- fenced by: each version's state and pin
-- locks: versions by id, then objects by hash
CREATE FUNCTION remove_artifacts(p_limit int) RETURNS int LANGUAGE sql SET search_path = stanchion, pg_temp AS $$
  SELECT retire_versions(ARRAY(SELECT v.version_id FROM artifact_version v WHERE v.outlives AND v.pinned_at IS NULL AND v.state = 'available' ORDER BY v.version_id LIMIT p_limit), 'retention', 'its time was over')
$$;
