package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolraft/spoolraft/fsm"
)

// nodeMetrics are what a node counts as it goes; what it can tell when asked is
// gathered by stateCollector.
type nodeMetrics struct {
	commitSeconds    prometheus.Histogram
	batchCommands    prometheus.Histogram
	fsyncSeconds     prometheus.Histogram
	snapshotSeconds  prometheus.Histogram
	snapshotBytes    prometheus.Gauge
	snapshotFailures prometheus.Counter
	forwardedOut     prometheus.Counter
	forwardedIn      prometheus.Counter
	divergences      prometheus.Counter
	clockOffset      prometheus.Gauge
}

func newNodeMetrics() *nodeMetrics {
	latency := prometheus.ExponentialBuckets(0.0001, 2, 16)
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &nodeMetrics{
		commitSeconds:    histogram("spoolraft_raft_commit_seconds", "Time from proposing a log entry to its outcome.", latency),
		batchCommands:    histogram("spoolraft_raft_batch_commands", "Commands in a log entry.", prometheus.ExponentialBuckets(1, 2, 13)),
		fsyncSeconds:     histogram("spoolraft_log_fsync_seconds", "Time that storing log entries took, flush included.", latency),
		snapshotSeconds:  histogram("spoolraft_snapshot_seconds", "Time that writing a snapshot took.", prometheus.ExponentialBuckets(0.01, 2, 14)),
		snapshotBytes:    gauge("spoolraft_snapshot_bytes", "Size of the last snapshot that this process wrote."),
		snapshotFailures: counter("spoolraft_snapshot_failures_total", "Snapshots that could not be taken."),
		forwardedOut:     counter("spoolraft_forwarded_commands_total", "Commands that this node forwarded to the leader."),
		forwardedIn:      counter("spoolraft_forwarded_received_commands_total", "Commands that other nodes forwarded to this one."),
		divergences:      counter("spoolraft_state_divergences_total", "Times that another node's state differed at the same log index. Anything but 0 is a bug."),
		clockOffset:      gauge("spoolraft_clock_offset_seconds", "How far the clocks of the majority are ahead of this node's."),
	}
}

func (m *nodeMetrics) fsynced(took time.Duration) { m.fsyncSeconds.Observe(took.Seconds()) }

func (m *nodeMetrics) committed(commands int, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.batchCommands.Observe(float64(commands))
}

func (m *nodeMetrics) snapshotted(bytes int64, took time.Duration) {
	m.snapshotSeconds.Observe(took.Seconds())
	m.snapshotBytes.Set(float64(bytes))
}

// Collectors returns the node's metrics, for a registry.
func (n *Node) Collectors() []prometheus.Collector {
	m := n.metrics
	return []prometheus.Collector{
		m.commitSeconds, m.batchCommands, m.fsyncSeconds, m.snapshotSeconds, m.snapshotBytes, m.snapshotFailures,
		m.forwardedOut, m.forwardedIn, m.divergences, m.clockOffset, stateCollector{n},
	}
}

// stateCollector tells what raft and the machine are like at the moment of a
// scrape.
type stateCollector struct{ n *Node }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spoolraft_"+name, help, labels, nil)
}

var (
	descTerm    = desc("raft_term", "Raft term.")
	descLeader  = desc("raft_is_leader", "1 where this node leads and serves.")
	descKnown   = desc("raft_leader_known", "1 where this node knows a leader.")
	descApplied = desc("raft_applied_index", "Index of the last log entry applied.")
	descCommit  = desc("raft_commit_index", "Index of the last log entry known to be committed.")
	descHashAt  = desc("state_hash_index", "Index of the log entry, one in 256, after which the state had the digest of the next two.")
	descHashHi  = desc("state_hash_high", "Upper 32 bits of that digest. Nodes that differ at the same index have different states.")
	descHashLo  = desc("state_hash_low", "Lower 32 bits of that digest.")
	descFull    = desc("disk_full", "1 where the disk is so full that a leader refuses writes.")
	descMember  = desc("member_reachable", "1 where this node has heard of the member just now.", "member")
	descMayFail = desc("voters_may_fail", "How many more voters the cluster can lose and go on, as this node sees it.")
	descDepth   = desc("queue_messages", "Messages in a queue, by state.", "spool", "queue", "state")
	descOldest  = desc("queue_oldest_message_age_seconds", "Age of the oldest message of a queue.", "spool", "queue")
	descKeys    = desc("queue_dedup_keys", "Keys that a queue remembers.", "spool", "queue")
	descOmitted = desc("queues_omitted", "Queues beyond the number that is reported one by one.")
)

// maxQueuesReported bounds the series that a cluster with many queues makes.
const maxQueuesReported = 1000

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTerm, descLeader, descKnown, descApplied, descCommit, descHashAt, descHashHi, descHashLo, descFull, descMember, descMayFail, descDepth, descOldest, descKeys, descOmitted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := func(d *prometheus.Desc, on bool, labels ...string) {
		v := 0.0
		if on {
			v = 1
		}
		gauge(d, v, labels...)
	}
	s := c.n.Status()
	gauge(descTerm, float64(s.Term))
	flag(descLeader, s.Serving)
	flag(descKnown, s.LeaderID != "")
	gauge(descApplied, float64(s.AppliedIndex))
	gauge(descCommit, float64(s.CommitIndex))
	for _, sample := range c.n.replica.hashes.latest(1) {
		gauge(descHashAt, float64(sample.Index))
		gauge(descHashHi, float64(sample.Hash>>32))
		gauge(descHashLo, float64(sample.Hash&(1<<32-1)))
	}
	flag(descFull, s.DiskFull)
	c.members(gauge, flag)
	c.queues(s.NowMs, gauge)
}

func (c stateCollector) members(gauge func(*prometheus.Desc, float64, ...string), flag func(*prometheus.Desc, bool, ...string)) {
	o := c.n.ownView()
	gauge(descMayFail, float64(o.MayFail))
	reachable := make(map[string]bool) // by name: one can be there twice while it is replaced
	for _, m := range o.Members {
		if m.Role != RoleJoining {
			reachable[m.Name] = reachable[m.Name] || m.Reachable
		}
	}
	for name, on := range reachable {
		flag(descMember, on, name)
	}
}

func (c stateCollector) queues(nowMs int64, gauge func(*prometheus.Desc, float64, ...string)) {
	image := c.n.replica.imageNow()
	left, omitted := maxQueuesReported, uint64(0)
	var spools []string
	for s := range image.Spools() {
		spools = append(spools, s.Name)
	}
	for _, spool := range spools {
		a := image.Read(fsm.Query{Kind: fsm.QueryStats, Spool: spool, Limit: maxQueuesReported})
		shown := a.Queues[:min(left, len(a.Queues))]
		left -= len(shown)
		omitted += a.QueueCount - uint64(len(shown))
		for i := range shown {
			q, st := shown[i].Name, &shown[i].Stats
			gauge(descDepth, float64(st.Delayed), spool, q, "delayed")
			gauge(descDepth, float64(st.Visible), spool, q, "visible")
			gauge(descDepth, float64(st.Pending), spool, q, "pending")
			gauge(descDepth, float64(st.Failed), spool, q, "failed")
			gauge(descKeys, float64(st.DedupKeys), spool, q)
			age := 0.0
			if st.OldestMs > 0 {
				age = max(0, float64(nowMs-st.OldestMs)/1000)
			}
			gauge(descOldest, age, spool, q)
		}
	}
	gauge(descOmitted, float64(omitted))
}
