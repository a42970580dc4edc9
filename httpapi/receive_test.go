package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// listen serves s on a loopback port of the system's choice.
func listen(t *testing.T, s *Server, change ...func(*http.Server)) (addr string, server *http.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = s.HTTPServer()
	for _, f := range change {
		f(server)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving ended with %v", err)
		}
	})
	return l.Addr().String(), server
}

// answered is an answer, or why there is none.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
}

// start sends a request and answers on the channel.
func start(ctx context.Context, method, url, body string, h ...string) <-chan answered {
	out := make(chan answered, 1)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		out <- answered{err: err}
		return out
	}
	r.Header.Set("Authorization", "Bearer test-key")
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	go func() {
		w, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			out <- answered{err: err}
			return
		}
		defer w.Body.Close()
		b, err := io.ReadAll(w.Body)
		out <- answered{w.StatusCode, w.Header, string(b), err}
	}()
	return out
}

func TestWaitingReceiveIsWoken(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	addr, _ := listen(t, s)
	got := start(t.Context(), "POST", "http://"+addr+testQueue+"/recv", "")
	<-b.waiting
	wantStatus(t, do(s, "POST", testQueue+"/send", "hello"), 201)
	if a := <-got; a.status != 200 || a.body != "hello" || a.header.Get(headerLease) == "" {
		t.Fatalf("%+v", a)
	}
}

func TestWaitEnds(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	addr, _ := listen(t, s)
	got := start(t.Context(), "POST", "http://"+addr+testQueue+"/recv?waitSeconds=3", "")
	<-b.waiting
	b.advance(3*time.Second - time.Millisecond)
	<-b.waiting
	b.advance(time.Millisecond)
	if a := <-got; a.status != 204 || a.body != "" {
		t.Fatalf("%+v", a)
	}
}

// TestManyWaiters: each message wakes one, and all get one.
func TestManyWaiters(t *testing.T) {
	const count = 200
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range count {
		all.Go(func() {
			w := do(s, "POST", testQueue+"/recv", "")
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(w.Code, w.Header().Get(headerMessageID))] = true
		})
	}
	for range count {
		<-b.waiting
	}
	go func() { // keep the signal from filling up
		for range b.waiting {
		}
	}()
	for range count {
		wantStatus(t, do(s, "POST", testQueue+"/send", ""), 201)
	}
	all.Wait()
	if len(seen) != count {
		t.Fatalf("%d different answers: %v", len(seen), seen)
	}
	close(b.waiting)
}

// TestClientGoesWhileWaiting: the broker learns it by its context.
func TestClientGoesWhileWaiting(t *testing.T) {
	waiting, over := make(chan struct{}), make(chan struct{})
	b := &fakeBroker{onWait: func(ctx context.Context) (fsm.Result, error) {
		close(waiting)
		<-ctx.Done()
		close(over)
		return fsm.Result{}, fsm.ErrNotApplied
	}}
	addr, _ := listen(t, newTestServer(t, b))
	ctx, cancel := context.WithCancel(t.Context())
	got := start(ctx, "POST", "http://"+addr+testQueue+"/recv", "")
	<-waiting
	cancel()
	<-got
	<-over
}

// TestClientGoesBeforeTheGrant: a lease that came too late is given back.
func TestClientGoesBeforeTheGrant(t *testing.T) {
	waiting, released := make(chan struct{}), make(chan fsm.Command, 1)
	b := &fakeBroker{
		onWait: func(ctx context.Context) (fsm.Result, error) {
			close(waiting)
			<-ctx.Done()
			return fsm.Result{ID: fsm.MessageID{Queue: 4, Message: 5}, Moves: 6, Payload: "late"}, nil
		},
		onDo: func(c fsm.Command) (fsm.Result, error) {
			released <- c
			return fsm.Result{}, nil
		},
	}
	addr, _ := listen(t, newTestServer(t, b))
	ctx, cancel := context.WithCancel(t.Context())
	got := start(ctx, "POST", "http://"+addr+testQueue+"/recv", "")
	<-waiting
	cancel()
	<-got
	wantRelease(t, <-released)
}

func wantRelease(t *testing.T, c fsm.Command) {
	t.Helper()
	want := fsm.Token{Sort: fsm.Lease, Queue: 4, Message: 5, Moves: 6}
	if c.Op != fsm.OpRelease || c.Spool != "default" || c.Token != want || c.DelaySeconds != 0 {
		t.Fatalf("%+v", c)
	}
}

// brokenWriter fails at a write or at the flush.
type brokenWriter struct {
	httptest.ResponseRecorder
	failWrite bool
}

func (w *brokenWriter) Write(p []byte) (int, error) { return w.WriteString(string(p)) }

func (w *brokenWriter) WriteString(s string) (int, error) {
	if w.failWrite {
		return 0, errors.New("broken")
	}
	return len(s), nil
}

func (w *brokenWriter) FlushError() error { return errors.New("broken") }

func TestAnswerThatFailsGivesTheLeaseBack(t *testing.T) {
	for _, failWrite := range []bool{true, false} {
		var got []fsm.Command
		b := &fakeBroker{
			result: fsm.Result{ID: fsm.MessageID{Queue: 4, Message: 5}, Moves: 6, Payload: "lost"},
			onDo: func(c fsm.Command) (fsm.Result, error) {
				got = append(got, c)
				return fsm.Result{}, nil
			},
		}
		w := &brokenWriter{ResponseRecorder: *httptest.NewRecorder(), failWrite: failWrite}
		newTestServer(t, b).ServeHTTP(w, newRequest("POST", testQueue+"/recv", "", nil))
		if len(got) != 1 {
			t.Fatalf("%d commands", len(got))
		}
		wantRelease(t, got[0])
	}
}

// TestShutdown ends waiting receives with an answer and lets a send finish.
func TestShutdown(t *testing.T) {
	b := newLocalBroker()
	s := newTestServer(t, b)
	newQueue(t, s, "")
	addr, server := listen(t, s)
	var waiting []<-chan answered
	for range 5 {
		waiting = append(waiting, start(t.Context(), "POST", "http://"+addr+testQueue+"/recv?waitSeconds=60", ""))
		<-b.waiting
	}
	if w := do(s, "GET", "/readyz", ""); w.Code != 200 {
		t.Fatalf("not ready: %s", w.Body)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, got := range waiting {
		if a := <-got; a.status != 503 || a.header.Get("Retry-After") != "1" {
			t.Fatalf("%+v %v", a, a.err)
		}
	}
	w := do(s, "GET", "/readyz", "")
	if w.Code != 503 || fields(t, w)["reason"] == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}

// TestShutdownDeliversWhatWasGranted: a grant that raced the shutdown has a
// client that waits for it.
func TestShutdownDeliversWhatWasGranted(t *testing.T) {
	waiting := make(chan struct{})
	b := &fakeBroker{
		onWait: func(ctx context.Context) (fsm.Result, error) {
			close(waiting)
			<-ctx.Done()
			return fsm.Result{ID: fsm.MessageID{Queue: 4, Message: 5}, Moves: 6, Payload: "in time"}, nil
		},
		onDo: func(fsm.Command) (fsm.Result, error) { panic("released") },
	}
	addr, server := listen(t, newTestServer(t, b))
	got := start(t.Context(), "POST", "http://"+addr+testQueue+"/recv", "")
	<-waiting
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.status != 200 || a.body != "in time" {
		t.Fatalf("%+v", a)
	}
}

// TestNoNewWaitWhileShuttingDown: a receive that comes late is sent elsewhere
// at once, and nothing is asked of the broker.
func TestNoNewWaitWhileShuttingDown(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	s.drain(errDraining)
	wantProblem(t, do(s, "POST", testQueue+"/recv", ""), 503, "")
	if _, asked := b.asked(); asked != 0 {
		t.Error("the broker was asked")
	}
	wantStatus(t, do(s, "POST", testQueue+"/send", ""), 201)
}
