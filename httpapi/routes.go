package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/spoolraft/spoolraft/fsm"
)

// bodyRule says what an operation takes as its body.
type bodyRule uint8

const (
	bodyNone bodyRule = iota
	bodyJSON
	bodyPayload
	bodyBatch
)

// operation is a call of the API. Its name is the label that metrics and the
// access log know it by.
type operation struct {
	name    string
	method  string // "" for the answers to calls that have no route
	path    string
	public  bool // no key, none of the checks of a call under /v1
	cluster bool // about the cluster, not about a spool
	scope   Scope
	headers headerSet
	query   paramSet
	body    bodyRule
	command fsm.Op // for the settles, which differ in nothing else
	run     func(*call) *problem
}

const (
	spoolPath = "/v1/spools/:spool"
	queuePath = spoolPath + "/queues/:queue"

	clusterPath = "/v1/cluster"
)

// operations is every route there is.
var operations = []operation{
	{name: "queue_create", method: http.MethodPut, path: queuePath, scope: ScopeAdmin, body: bodyJSON, run: createQueue},
	{name: "queue_get", method: http.MethodGet, path: queuePath, scope: ScopeRead, run: getQueue},
	{name: "queue_update", method: http.MethodPatch, path: queuePath, scope: ScopeAdmin, body: bodyJSON, run: updateQueue},
	{name: "queue_delete", method: http.MethodDelete, path: queuePath, scope: ScopeAdmin, query: paramMode.bit() | paramUID.bit(), run: deleteQueue},
	{name: "queues_list", method: http.MethodGet, path: spoolPath + "/queues", scope: ScopeRead, query: listParams, run: listQueues},
	{name: "stats", method: http.MethodGet, path: spoolPath + "/stats", scope: ScopeRead, query: listParams | paramQueue.bit(), run: readStats},
	{name: "messages_list", method: http.MethodGet, path: queuePath + "/messages", scope: ScopeRead,
		query: paramState.bit() | paramLimit.bit() | paramAfterID.bit() | paramHandle.bit(), run: listMessages},

	{name: "send", method: http.MethodPost, path: queuePath + "/send", scope: ScopeSend, headers: takesDelay | takesDedup, query: paramHandle.bit(), body: bodyPayload, run: send},
	{name: "receive", method: http.MethodPost, path: queuePath + "/recv", scope: ScopeReceive, query: paramWait.bit(), run: receive},
	{name: "ack", method: http.MethodPost, path: spoolPath + "/ack", scope: ScopeReceive, headers: takesLease, command: fsm.OpAck, run: settle},
	{name: "nack", method: http.MethodPost, path: spoolPath + "/nack", scope: ScopeReceive, headers: takesLease, command: fsm.OpNack, run: settle},
	{name: "release", method: http.MethodPost, path: spoolPath + "/release", scope: ScopeReceive, headers: takesLease | takesDelay, command: fsm.OpRelease, run: settle},
	{name: "fail", method: http.MethodPost, path: spoolPath + "/fail", scope: ScopeReceive, headers: takesLease, command: fsm.OpFail, run: settle},
	{name: "discard", method: http.MethodPost, path: spoolPath + "/discard", scope: ScopeReceive, headers: takesLease | takesHandle, command: fsm.OpDiscard, run: settle},
	{name: "renew", method: http.MethodPost, path: spoolPath + "/renew", scope: ScopeReceive, headers: takesLease, command: fsm.OpRenew, run: settle},
	{name: "recover", method: http.MethodPost, path: spoolPath + "/recover", scope: ScopeReceive, headers: takesHandle | takesDelay, command: fsm.OpRecover, run: settle},
	{name: "inspect", method: http.MethodPost, path: spoolPath + "/inspect", scope: ScopeReceive, headers: takesHandle, run: inspect},
	{name: "ack_and_send", method: http.MethodPost, path: spoolPath + "/ack-and-send", scope: ScopeSend | ScopeReceive,
		headers: takesLease | takesQueue | takesDelay | takesDedup, query: paramHandle.bit(), body: bodyPayload, run: ackAndSend},

	{name: "send_batch", method: http.MethodPost, path: queuePath + "/send-batch", scope: ScopeSend, query: paramHandle.bit(), body: bodyBatch, run: sendBatch},
	{name: "receive_batch", method: http.MethodPost, path: queuePath + "/recv-batch", scope: ScopeReceive, query: paramMax.bit() | paramWait.bit(), run: receiveBatch},
	{name: "settle_batch", method: http.MethodPost, path: spoolPath + "/settle-batch", scope: ScopeReceive, body: bodyBatch, run: settleBatch},

	{name: "cluster_overview", method: http.MethodGet, path: clusterPath, cluster: true, scope: ScopeAdmin, run: clusterOverview},
	{name: "cluster_remove", method: http.MethodDelete, path: clusterPath + "/nodes/:node", cluster: true, scope: ScopeAdmin, query: paramInstance.bit(), run: removeNode},
	{name: "cluster_transfer", method: http.MethodPost, path: clusterPath + "/transfer", cluster: true, scope: ScopeAdmin, query: paramTo.bit(), run: transferLead},

	{name: "health", method: http.MethodGet, path: "/healthz", public: true, run: health},
	{name: "ready", method: http.MethodGet, path: "/readyz", public: true, run: ready},
	{name: "metrics", method: http.MethodGet, path: "/metrics", public: true, run: metricsPage},
	{name: "openapi", method: http.MethodGet, path: "/openapi.yaml", public: true, run: openAPI},
}

// The answers to calls that have no row of their own.
var (
	opOptions          = operation{name: "options", run: options}
	opNotFound         = operation{name: "not_found", run: notFound}
	opMethodNotAllowed = operation{name: "method_not_allowed", run: methodNotAllowed}
)

// register makes the router. A path that answers GET answers HEAD too, and
// every path OPTIONS.
func (s *Server) register() {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, ec echo.Context) {
		op := &opNotFound
		if err == echo.ErrMethodNotAllowed {
			op = &opMethodNotAllowed
		}
		_ = s.serve(op, ec)
	}
	handle := func(method, path string, op *operation) {
		e.Add(method, path, func(ec echo.Context) error { return s.serve(op, ec) })
	}
	s.allow = make(map[string]string)
	for i := range operations {
		op := &operations[i]
		handle(op.method, op.path, op)
		if _, known := s.allow[op.path]; !known {
			handle(http.MethodOptions, op.path, &opOptions)
		}
		s.allow[op.path] += op.method + ", "
		if op.method == http.MethodGet {
			handle(http.MethodHead, op.path, op)
			s.allow[op.path] += http.MethodHead + ", "
		}
	}
	for path := range s.allow {
		s.allow[path] += http.MethodOptions
	}
	s.echo = e
}

// options, notFound and methodNotAllowed answer under /v1 only to a key, as
// every call there.
func options(c *call) *problem {
	if p := c.authorizeUnderV1(); p != nil {
		return p
	}
	c.set(echo.HeaderAllow, c.s.allow[c.ec.Path()])
	c.answer(http.StatusNoContent)
	return nil
}

func notFound(c *call) *problem {
	if p := c.authorizeUnderV1(); p != nil {
		return p
	}
	return problemPathNotFound
}

func methodNotAllowed(c *call) *problem {
	delete(c.w.Header(), echo.HeaderAllow) // the router's own, in another order
	if p := c.authorizeUnderV1(); p != nil {
		return p
	}
	c.set(echo.HeaderAllow, c.s.allow[c.ec.Path()])
	return problemMethod
}

func (c *call) authorizeUnderV1() *problem {
	if path := c.r.URL.Path; path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return c.authorize(0)
	}
	return nil
}
