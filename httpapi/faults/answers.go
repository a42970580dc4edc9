package faults

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"
)

const headerRequestID = "X-Request-Id"

// The API's own answers, as its cluster's failures make it give them. A test
// holds them against it.
const (
	bodyUnavailable = `{"message":"The cluster cannot take this call right now. It was not carried out and will not be; send it again after the time in Retry-After."}` + "\n"
	bodyUnreadable  = `{"message":"The cluster cannot answer this read right now, and it changed nothing. Send it again after the time in Retry-After."}` + "\n"
	bodyUnconfirmed = `{"kind":"operation_unconfirmed","message":"The outcome of this call is unknown: it may have been carried out or may yet be. Repeat a send with the same dedup key to learn its outcome without storing it twice; check before you repeat anything else."}` + "\n"
)

// inject gives the client the fault instead of an answer. The request id is
// that of the call where the API has seen it.
func (i *Injector) inject(w http.ResponseWriter, fault string, t target, requestID string) {
	switch fault {
	case faultDrop, faultReset:
		reset(w)
	case fault500:
		answerLikeAPI(w, http.StatusInternalServerError, bodyUnconfirmed, requestID)
	case fault503:
		body := bodyUnavailable
		if t.operation.read {
			body = bodyUnreadable
		}
		w.Header().Set("Retry-After", "1")
		answerLikeAPI(w, http.StatusServiceUnavailable, body, requestID)
	case fault502:
		answerLikeProxy(w, http.StatusBadGateway)
	case fault504:
		answerLikeProxy(w, http.StatusGatewayTimeout)
	}
}

func answerLikeAPI(w http.ResponseWriter, status int, body, requestID string) {
	h := w.Header()
	h.Set(headerRequestID, requestID)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func answerLikeProxy(w http.ResponseWriter, status int) {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	body := "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title + "</h1></center>\r\n</body>\r\n</html>\r\n"
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// reset ends the connection as a crashed peer does: with a reset where it is
// TCP, and never with an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

const (
	drainTimeout  = 30 * time.Second
	maxDrainBytes = 64 << 20
)

// drain reads the body of a call that the API is not to see. A client that is
// still sending would else lose the answer with the connection.
func drain(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.CopyN(io.Discard, r.Body, maxDrainBytes)
}

// heldAnswer is an answer that does not go out until it is released.
type heldAnswer struct {
	w      http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

func hold(w http.ResponseWriter) *heldAnswer {
	return &heldAnswer{w: w, header: make(http.Header)}
}

// Header is that of the held answer.
func (a *heldAnswer) Header() http.Header { return a.header }

// WriteHeader keeps the first status.
func (a *heldAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps a part of the body.
func (a *heldAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// FlushError holds back what a flush would send.
func (a *heldAnswer) FlushError() error { return nil }

// Unwrap lends the connection, for its deadlines.
func (a *heldAnswer) Unwrap() http.ResponseWriter { return a.w }

// release sends the answer.
func (a *heldAnswer) release() {
	maps.Copy(a.w.Header(), a.header)
	a.WriteHeader(http.StatusOK)
	a.w.WriteHeader(a.status)
	_, _ = a.w.Write(a.body.Bytes())
}
