package cluster

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/spoolraft/spoolraft/fsm"
)

func counterValue(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		t.Fatal(err)
	}
	return d.GetCounter().GetValue()
}

func TestCollectors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.nodes["a"]
	makeQueue(t, n, "q")
	mustDo(t, n, keyed("q", "k", "x"))
	mustDo(t, n, fsm.Command{Op: fsm.OpReceive, Queue: "q"})
	n.replica.hashes.add(hashEvery, 0xfedcba9876543210)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(n.Collectors()...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			id := f.GetName()
			for _, l := range m.GetLabel() {
				id += " " + l.GetValue()
			}
			got[strings.TrimPrefix(id, "spoolraft_")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for id, want := range map[string]float64{
		"raft_is_leader": 1, "raft_leader_known": 1, "disk_full": 0, "state_divergences_total": 0, "queues_omitted": 0,
		"member_reachable a": 1, "voters_may_fail": 0,
		"queue_messages q default pending": 1, "queue_messages q default visible": 0, "queue_dedup_keys q default": 1,
		"state_hash_index": hashEvery, "state_hash_high": 0xfedcba98, "state_hash_low": 0x76543210,
	} {
		if v, ok := got[id]; !ok || v != want {
			t.Errorf("%s is %v (reported: %v), want %v", id, v, ok, want)
		}
	}
	for _, id := range []string{"raft_term", "raft_applied_index", "log_fsync_seconds", "raft_commit_seconds", "raft_batch_commands"} {
		if got[id] < 1 {
			t.Errorf("%s is %v", id, got[id])
		}
	}
}
