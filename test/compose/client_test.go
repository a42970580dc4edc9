package compose

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	queuePath = "/v1/spools/default/queues/orders"
	poll      = 100 * time.Millisecond
	// patience is how long anything that is bound to happen may take here. The
	// test fails after it; it never decides what is right.
	patience = 90 * time.Second
	// tidying is what must be left of the test's time to remove the containers.
	tidying = time.Minute
)

// client bounds each attempt, since a paused node never answers. It dials anew
// for each, since a port may belong to another container by then.
var client = &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// call makes one attempt at one service.
func (p *project) call(service, method, path string, body []byte, headers ...string) (answer, error) {
	base, err := p.url(service)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequest(method, base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer any")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		p.forget(service)
		return answer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, data}, err
}

// eventually repeats try until it reports that it is done.
func (p *project) eventually(what string, try func() (done bool, state string)) {
	p.t.Helper()
	state := ""
	deadline := time.Now().Add(patience)
	if end, ok := p.t.Deadline(); ok && end.Add(-tidying).Before(deadline) {
		deadline = end.Add(-tidying)
	}
	for time.Now().Before(deadline) {
		var done bool
		if done, state = try(); done {
			return
		}
		time.Sleep(poll)
	}
	p.t.Fatalf("%s did not happen within %v: %s", what, patience, state)
}

// awaitReady returns when every service is ready.
func (p *project) awaitReady() {
	p.t.Helper()
	for _, service := range services {
		p.eventually(service+" ready", func() (bool, string) {
			a, err := p.call(service, http.MethodGet, "/readyz", nil)
			return err == nil && a.status == http.StatusOK, fmt.Sprintf("%d %s %v", a.status, a.body, err)
		})
	}
}

// leader finds the leader by what each node tells of itself.
func (p *project) leader() (found string) {
	p.t.Helper()
	p.eventually("one leader", func() (bool, string) {
		var leaders []string
		for _, service := range services {
			a, err := p.call(service, http.MethodGet, "/metrics", nil)
			if err != nil {
				return false, err.Error()
			}
			if bytes.Contains(a.body, []byte("\nspoolraft_raft_is_leader 1\n")) {
				leaders = append(leaders, service)
			}
		}
		if len(leaders) == 1 {
			found = leaders[0]
		}
		return len(leaders) == 1, fmt.Sprintf("leaders are %v", leaders)
	})
	return found
}

// producer sends keyed messages one after the other, each at the next node,
// and repeats one with its key, at the node after that, until it is answered.
type producer struct {
	p      *project
	name   string
	sent   atomic.Int64
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu  sync.Mutex
	ids map[string]string // by key
	err error
}

func (p *project) produce(name string) *producer {
	ctx, cancel := context.WithCancel(context.Background())
	r := &producer{p: p, name: name, cancel: cancel, ids: map[string]string{}}
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		for n := 0; ctx.Err() == nil; n++ {
			if err := r.send(ctx, fmt.Sprintf("%s-%d", name, n), n); err != nil {
				r.mu.Lock()
				r.err = err
				r.mu.Unlock()
				return
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); r.done.Wait() })
	return r
}

// send repeats one message until it is stored. What is being sent when the
// producer is told to stop is still sent to its end, so that every key has an id.
func (r *producer) send(ctx context.Context, key string, first int) error {
	start := time.Now()
	last := ""
	for n := first; time.Since(start) < 2*patience; n++ {
		service := services[n%len(services)]
		a, err := r.p.call(service, http.MethodPost, queuePath+"/send", []byte(key), "Spooler-Dedup-String", key)
		switch {
		case err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK):
			r.mu.Lock()
			r.ids[key] = a.header.Get("Spooler-Message-Id")
			r.mu.Unlock()
			r.sent.Add(1)
			return nil
		case err == nil && a.status < 500 && a.status != http.StatusConflict:
			return fmt.Errorf("send of %s at %s answered %d %s", key, service, a.status, a.body)
		}
		last = fmt.Sprintf("%s: %d %s %v", service, a.status, a.body, err)
		select {
		case <-time.After(poll):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("send of %s found no taker; last: %s", key, last)
}

// awaitProgress returns when the producer has sent n more.
func (r *producer) awaitProgress(n int64) {
	r.p.t.Helper()
	target := r.sent.Load() + n
	r.p.eventually(fmt.Sprintf("%d more sends by %s", n, r.name), func() (bool, string) {
		r.mu.Lock()
		err := r.err
		r.mu.Unlock()
		if err != nil {
			r.p.t.Fatal(err)
		}
		return r.sent.Load() >= target, fmt.Sprintf("%d sent", r.sent.Load())
	})
}

// stop ends the producer and returns the ids of what it has sent, by key.
func (r *producer) stop(t *testing.T) map[string]string {
	t.Helper()
	r.cancel()
	r.done.Wait()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.ids
}
