package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// refusal is an answer that is not a success.
type refusal struct {
	status  int
	kind    string
	details map[string]any
}

func (r refusal) Error() string { return r.kind }

func refuse(status int, kind string) refusal { return refusal{status: status, kind: kind} }

var (
	errQueueNotFound = refuse(http.StatusNotFound, "queue_not_found")
	errStale         = refuse(http.StatusGone, "stale_token")
	errInvalid       = refuse(http.StatusBadRequest, "invalid_token")
	errUnconfirmed   = refuse(http.StatusInternalServerError, "operation_unconfirmed")
	errUnavailable   = refuse(http.StatusServiceUnavailable, "")
)

// call is one request at one front end, with the lock held.
type call struct {
	c     *Cluster
	n     *node
	s     *state
	r     *http.Request
	body  string
	nowMs int64
}

// handlerFunc answers with a status, or an error that is a refusal.
type handlerFunc func(k *call, h http.Header) (status int, body any, err error)

const base = "/v1/spools/default"

// handler routes the part of the contract that the harness uses.
func (c *Cluster) handler(n *node) http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, change bool, f handlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+base+path, func(w http.ResponseWriter, r *http.Request) {
			c.serve(w, r, n, change, f)
		})
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ready(n) != nil || n.cut {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	route("PUT /queues/{queue}", true, putQueue)
	route("PATCH /queues/{queue}", true, patchQueue)
	route("DELETE /queues/{queue}", true, deleteQueue)
	route("GET /queues/{queue}", false, getQueue)
	route("POST /queues/{queue}/send", true, send)
	route("POST /queues/{queue}/recv", true, recv)
	route("GET /queues/{queue}/messages", false, listMessages)
	route("GET /stats", false, readStats)
	route("POST /ack-and-send", true, ackAndSend)
	for _, verb := range []string{"ack", "nack", "release", "fail", "discard", "renew", "inspect", "recover"} {
		route("POST /"+verb, verb != "inspect", settle(verb))
	}
	return mux
}

// serve runs one handler under the lock and writes its answer.
func (c *Cluster) serve(w http.ResponseWriter, r *http.Request, n *node, change bool, f handlerFunc) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	status, answer, err := c.decide(w.Header(), &call{c: c, n: n, s: c.state, r: r, body: string(body)}, change, f)
	var no refusal
	switch {
	case errors.Is(err, errStopped):
		panic(http.ErrAbortHandler) // the connection is gone, like the node
	case errors.As(err, &no):
		status, answer = no.status, map[string]any{"kind": no.kind, "message": "Refused by the test server.", "details": no.details}
	case err != nil:
		status, answer = http.StatusBadRequest, map[string]any{"message": err.Error()}
	}
	if text, ok := answer.(string); ok {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return
	}
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

func (c *Cluster) decide(h http.Header, k *call, change bool, f handlerFunc) (int, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ready(k.n); err != nil {
		return 0, nil, err
	}
	k.nowMs = nowMs()
	if k.n.cut {
		return k.decideCutOff(h, change, f)
	}
	if change {
		c.state.index++
		defer c.wake.Broadcast()
	}
	status, body, err := f(k, h)
	if k.n.server == nil {
		return 0, nil, errStopped
	}
	return status, body, err
}

// decideCutOff is what a node without a leader answers: it refuses, or it
// does not know, whether or not the change had got through before.
func (k *call) decideCutOff(h http.Header, change bool, f handlerFunc) (int, any, error) {
	if !change || k.s.dice.IntN(2) == 0 {
		return 0, nil, errUnavailable
	}
	if key := k.r.Header.Get("Spooler-Dedup-String"); k.s.has(StuckClaim) && key != "" {
		if q := k.s.queues[k.r.PathValue("queue")]; q != nil {
			q.inFlight[key] = true
		}
	}
	if k.r.Header.Get("Spooler-Lease") == "" && k.s.dice.IntN(2) == 0 && !strings.HasSuffix(k.r.URL.Path, "/recv") {
		_, _, _ = f(k, h) // the outcome is what the client does not learn
	}
	return 0, nil, errUnconfirmed
}

func (k *call) queue() (*queue, error) {
	q := k.s.queues[k.r.PathValue("queue")]
	if q == nil {
		return nil, errQueueNotFound
	}
	k.s.sweep(q, k.nowMs)
	return q, nil
}

func (k *call) settings() (history.Settings, error) {
	var st history.Settings
	if k.body == "" {
		return st, nil
	}
	return st, json.Unmarshal([]byte(k.body), &st)
}

func (q *queue) view() map[string]any {
	return map[string]any{
		"name": q.name, "uid": fmt.Sprintf("uid-%d", q.number), "state": "active",
		"settings": history.Settings{
			LeaseTimeoutSeconds: &q.leaseSeconds, MaxRetries: &q.maxRetries, DedupWindowSeconds: &q.windowS,
		},
	}
}

func putQueue(k *call, _ http.Header) (int, any, error) {
	name := k.r.PathValue("queue")
	if k.s.queues[name] != nil {
		return 0, nil, refuse(http.StatusConflict, "queue_exists")
	}
	st, err := k.settings()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, k.s.createQueue(name, st).view(), nil
}

func patchQueue(k *call, _ http.Header) (int, any, error) {
	q, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	st, err := k.settings()
	if err != nil {
		return 0, nil, err
	}
	k.s.updateQueue(q, st)
	return http.StatusOK, q.view(), nil
}

func deleteQueue(k *call, _ http.Header) (int, any, error) {
	q, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	if uid := k.r.URL.Query().Get("uid"); uid != "" && uid != q.view()["uid"] {
		return 0, nil, refuse(http.StatusConflict, "queue_replaced")
	}
	k.s.removeQueue(q)
	return http.StatusAccepted, nil, nil
}

func getQueue(k *call, _ http.Header) (int, any, error) {
	q, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, q.view(), nil
}

// old reports whether this read is answered from old state.
func (k *call) old() bool {
	return k.s.has(StaleReads) && k.n != k.c.nodes[k.c.leader] && k.s.dice.IntN(2) == 0
}

func readStats(k *call, h http.Header) (int, any, error) {
	k.r.SetPathValue("queue", k.r.URL.Query().Get("queue"))
	items := []any{}
	if q, err := k.queue(); err == nil {
		st := k.s.counts(q, k.nowMs)
		if k.old() {
			st.AddedTotal -= min(3, st.AddedTotal)
			st.Total = st.AddedTotal - st.AckedTotal - st.DiscardedTotal
		}
		if k.s.has(SkewedExpiry) && k.n == k.c.nodes[len(k.c.nodes)-1] {
			st.Visible, st.Pending = st.Visible+1, st.Pending-1
			st.NackedTotal++
		}
		view := q.view()
		view["stats"] = st
		items = append(items, view)
	}
	h.Set("Spooler-Applied-Index", strconv.FormatUint(k.s.index, 10))
	return http.StatusOK, map[string]any{"queueCount": len(k.s.queues), "queues": map[string]any{"items": items}}, nil
}

func listMessages(k *call, h http.Header) (int, any, error) {
	q, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	items := []any{}
	for _, m := range q.messages {
		shown := m.shown(k.nowMs)
		if want := k.r.URL.Query().Get("state"); want == "" || want == shown {
			items = append(items, map[string]any{
				"id": q.id(m.number), "state": shown, "retries": m.retries, "handle": token("handle", q, m),
			})
		}
	}
	h.Set("Spooler-Applied-Index", strconv.FormatUint(k.s.index, 10))
	return http.StatusOK, map[string]any{"items": items}, nil
}

// expiry is a lease's end as the contract writes it.
func expiry(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
