package faults

import (
	"net/http"
	"net/url"
	"strings"
)

// operation is a call of the API that a rule can name.
type operation struct {
	name   string
	method string
	path   string // segments of the form :x stand for any
	read   bool   // it changes nothing
	queue  bool   // it names a queue, in the path or in a header
}

const (
	spoolPath = "/v1/spools/:spool"
	queuePath = spoolPath + "/queues/:queue"
)

// operations are all the calls under /v1, by the names that metrics and the
// access log give them.
var operations = []operation{
	{name: "send", method: http.MethodPost, path: queuePath + "/send", queue: true},
	{name: "receive", method: http.MethodPost, path: queuePath + "/recv", queue: true},
	{name: "ack", method: http.MethodPost, path: spoolPath + "/ack"},
	{name: "nack", method: http.MethodPost, path: spoolPath + "/nack"},
	{name: "release", method: http.MethodPost, path: spoolPath + "/release"},
	{name: "fail", method: http.MethodPost, path: spoolPath + "/fail"},
	{name: "discard", method: http.MethodPost, path: spoolPath + "/discard"},
	{name: "renew", method: http.MethodPost, path: spoolPath + "/renew"},
	{name: "recover", method: http.MethodPost, path: spoolPath + "/recover"},
	{name: "inspect", method: http.MethodPost, path: spoolPath + "/inspect", read: true},
	{name: "ack_and_send", method: http.MethodPost, path: spoolPath + "/ack-and-send", queue: true},
	{name: "send_batch", method: http.MethodPost, path: queuePath + "/send-batch", queue: true},
	{name: "receive_batch", method: http.MethodPost, path: queuePath + "/recv-batch", queue: true},
	{name: "settle_batch", method: http.MethodPost, path: spoolPath + "/settle-batch"},

	{name: "queue_create", method: http.MethodPut, path: queuePath, queue: true},
	{name: "queue_get", method: http.MethodGet, path: queuePath, read: true, queue: true},
	{name: "queue_update", method: http.MethodPatch, path: queuePath, queue: true},
	{name: "queue_delete", method: http.MethodDelete, path: queuePath, queue: true},
	{name: "queues_list", method: http.MethodGet, path: spoolPath + "/queues", read: true},
	{name: "stats", method: http.MethodGet, path: spoolPath + "/stats", read: true},
	{name: "messages_list", method: http.MethodGet, path: queuePath + "/messages", read: true, queue: true},

	{name: "cluster_overview", method: http.MethodGet, path: "/v1/cluster", read: true},
	{name: "cluster_remove", method: http.MethodDelete, path: "/v1/cluster/nodes/:node"},
	{name: "cluster_transfer", method: http.MethodPost, path: "/v1/cluster/transfer"},
}

// headerQueue names the target of an ack-and-send.
const headerQueue = "Spooler-Queue"

func operationNamed(name string) *operation {
	for i := range operations {
		if operations[i].name == name {
			return &operations[i]
		}
	}
	return nil
}

func operationNames() string {
	names := make([]string, len(operations))
	for i, op := range operations {
		names[i] = op.name
	}
	return strings.Join(names, ", ")
}

// target is what a call under /v1 aims at. All of it is zero where the API has
// no such call.
type target struct {
	operation operation
	spool     string
	queue     string
}

func targetOf(r *http.Request) target {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for _, op := range operations {
		if op.method != method {
			continue
		}
		names, ok := matchPath(op.path, segments)
		if !ok {
			continue
		}
		t := target{operation: op}
		if strings.HasPrefix(op.path, spoolPath) {
			t.spool = names[0]
		}
		switch {
		case len(names) > 1:
			t.queue = names[1]
		case op.queue:
			t.queue = r.Header.Get(headerQueue)
		}
		return t
	}
	return target{}
}

// matchPath returns the decoded segments that stand where the path has a name.
func matchPath(path string, segments []string) (names []string, ok bool) {
	want := strings.Split(path, "/")
	if len(want) != len(segments) {
		return nil, false
	}
	for i, segment := range segments {
		text, err := url.PathUnescape(segment)
		switch {
		case err != nil:
			return nil, false
		case strings.HasPrefix(want[i], ":"):
			names = append(names, text)
		case text != want[i]:
			return nil, false
		}
	}
	return names, true
}
