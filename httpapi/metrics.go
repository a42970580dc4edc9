package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Outcomes of answers without a problem. Those with one count under its kind,
// or under the word that the error table gives.
const (
	outcomeOK         = "ok"
	outcomeDuplicate  = "duplicate"
	outcomeEmpty      = "empty"
	outcomeClientGone = "client_gone"
	outcomeNotReady   = "not_ready"
)

// latencyBuckets reach from a read in memory to a receive that waits its
// longest.
var latencyBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60}

// requestMetrics count calls. Their labels come from the operations and from
// the error table.
type requestMetrics struct {
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	dedupHits prometheus.Counter
	items     *prometheus.CounterVec
	common    map[*operation]commonMetrics // read only after New
}

// commonMetrics are what most calls need, looked up once.
type commonMetrics struct {
	ok      prometheus.Counter
	latency prometheus.Observer
}

func newRequestMetrics(registry *prometheus.Registry) (*requestMetrics, error) {
	m := &requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spoolraft_http_requests_total",
			Help: "HTTP requests by operation and outcome.",
		}, []string{"operation", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "spoolraft_http_request_duration_seconds",
			Help:    "Time from the request's headers to the end of its answer; a receive includes its wait.",
			Buckets: latencyBuckets,
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spoolraft_http_requests_in_flight",
			Help: "HTTP requests being served, waiting receives included.",
		}),
		dedupHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spoolraft_dedup_hits_total",
			Help: "Keyed sends that this node answered with the message for which the key is remembered.",
		}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spoolraft_http_batch_items_total",
			Help: "Items of batch calls by operation and outcome.",
		}, []string{"operation", "outcome"}),
		common: make(map[*operation]commonMetrics),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.latency, m.inFlight, m.dedupHits, m.items} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	for i := range operations {
		m.add(&operations[i])
	}
	for _, op := range []*operation{&opOptions, &opNotFound, &opMethodNotAllowed} {
		m.add(op)
	}
	return m, nil
}

func (m *requestMetrics) add(op *operation) {
	m.common[op] = commonMetrics{ok: m.requests.WithLabelValues(op.name, outcomeOK), latency: m.latency.WithLabelValues(op.name)}
}

// observe counts a finished call.
func (m *requestMetrics) observe(c *call, d time.Duration) {
	common := m.common[c.op]
	common.latency.Observe(d.Seconds())
	if outcome := c.result(); outcome == outcomeOK {
		common.ok.Inc()
	} else {
		m.requests.WithLabelValues(c.op.name, outcome).Inc()
	}
}

// result is the outcome of a finished call.
func (c *call) result() string {
	if c.problem != nil && c.outcome != outcomeClientGone {
		return c.problem.label()
	}
	return c.outcome
}

func metricsPage(c *call) *problem {
	w := c.ec.Response() // counts what is written
	c.wrote = true
	promhttp.HandlerFor(c.s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, c.r)
	c.status, c.bytesOut = w.Status, w.Size
	return nil
}
