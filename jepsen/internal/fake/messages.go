package fake

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// token names a message as it is now.
func token(sort string, q *queue, m *message) string {
	return fmt.Sprintf("%s.%d.%d.%d", sort, q.number, m.number, m.moves)
}

// open finds what a token names. The queue of a stale token may be nil.
func (k *call) open(sort, text string) (*queue, *message, error) {
	var number, message, moves int
	if n, err := fmt.Sscanf(text, sort+".%d.%d.%d", &number, &message, &moves); n != 3 || err != nil {
		return nil, nil, errInvalid
	}
	for _, q := range k.s.queues {
		if q.number != number {
			continue
		}
		k.s.sweep(q, k.nowMs)
		m := q.find(message)
		if m == nil || m.moves != moves || sort == "lease" && m.state != "pending" {
			return nil, nil, errStale
		}
		return q, m, nil
	}
	return nil, nil, errStale
}

func (k *call) delaySeconds() int {
	n, _ := strconv.Atoi(k.r.Header.Get("Spooler-Delay-Seconds")) // absent is none
	return n
}

func send(k *call, h http.Header) (int, any, error) {
	q, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	key := k.r.Header.Get("Spooler-Dedup-String")
	if key != "" {
		if q.windowS == 0 {
			return 0, nil, refuse(http.StatusBadRequest, "dedup_disabled")
		}
		if q.inFlight[key] {
			return 0, nil, refuse(http.StatusConflict, "dedup_in_flight")
		}
		if number, ok := k.s.duplicate(q, key, k.nowMs); ok {
			h.Set("Spooler-Message-Id", q.id(number))
			return http.StatusOK, nil, nil
		}
		if k.s.luck(DuplicateWord, 20) {
			q.next++
			q.keys[key] = claim{q.next, k.nowMs}
			return 0, nil, errUnconfirmed
		}
	}
	m := k.s.append(q, key, k.body, k.delaySeconds(), k.nowMs)
	if k.s.luck(DoubleAppend, 30) {
		k.s.append(q, "", k.body, k.delaySeconds(), k.nowMs)
	}
	if k.s.luck(RefuseCommitted, 30) {
		return 0, nil, errUnavailable
	}
	h.Set("Spooler-Message-Id", q.id(m.number))
	if k.r.URL.Query().Get("handle") == "true" {
		h.Set("Spooler-Handle", token("handle", q, m))
	}
	return http.StatusCreated, nil, nil
}

func recv(k *call, h http.Header) (int, any, error) {
	wait, err := strconv.Atoi(k.r.URL.Query().Get("waitSeconds"))
	if err != nil {
		return 0, nil, err
	}
	deadline := time.Now().Add(time.Duration(wait) * time.Second)
	defer k.c.tick()()
	for {
		k.nowMs = nowMs()
		q, err := k.queue()
		if err != nil {
			return 0, nil, err
		}
		if k.r.Context().Err() != nil || k.n.server == nil {
			return 0, nil, errStopped
		}
		if m := k.s.receive(q, k.nowMs); m != nil {
			h.Set("Spooler-Message-Id", q.id(m.number))
			h.Set("Spooler-Lease", token("lease", q, m))
			h.Set("Spooler-Lease-Expires-At", expiry(m.expiresMs))
			h.Set("Spooler-Message-Retries", strconv.Itoa(m.retries))
			return http.StatusOK, m.payload, nil
		}
		if !time.Now().Before(deadline) || k.n.cut {
			return http.StatusNoContent, nil, nil
		}
		k.c.wake.Wait()
	}
}

// tick wakes waiting receives now and then, so that passing time is noticed,
// until the returned function is called.
func (c *Cluster) tick() (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.wake.Broadcast()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// settle answers every verb that takes a lease or a handle.
func settle(verb string) handlerFunc {
	return func(k *call, h http.Header) (int, any, error) {
		lease, handle := k.r.Header.Get("Spooler-Lease"), k.r.Header.Get("Spooler-Handle")
		sort, text := "lease", lease
		if verb == "inspect" || verb == "recover" || verb == "discard" && handle != "" {
			sort, text = "handle", handle
		}
		q, m, err := k.open(sort, text)
		if err != nil {
			return 0, nil, err
		}
		switch verb {
		case "ack":
			k.s.ack(q, m)
		case "discard":
			k.s.remove(q, m)
			q.stats.DiscardedTotal++
		case "nack":
			q.stats.NackedTotal++
			k.s.giveBack(q, m, k.nowMs)
		case "release":
			m.moves++
			m.state, m.visibleMs = "visible", k.nowMs+int64(k.delaySeconds())*1000
			q.stats.ReleasedTotal++
			if k.s.has(StatsDrift) {
				q.stats.AddedTotal++
			}
		case "fail":
			m.moves++
			m.state = "failed"
			q.stats.FailedTotal++
		case "renew":
			m.expiresMs = k.nowMs + int64(q.leaseSeconds)*1000
			h.Set("Spooler-Lease-Expires-At", expiry(m.expiresMs))
		case "inspect":
			h.Set("Spooler-Message-Id", q.id(m.number))
			h.Set("Spooler-Message-State", m.shown(k.nowMs))
			h.Set("Spooler-Message-Retries", strconv.Itoa(m.retries))
			return http.StatusOK, m.payload, nil
		case "recover":
			if m.state != "failed" {
				return 0, nil, refuse(http.StatusConflict, "not_failed")
			}
			m.moves++
			m.state, m.retries, m.visibleMs = "visible", 0, k.nowMs+int64(k.delaySeconds())*1000
		}
		return http.StatusNoContent, nil, nil
	}
}

func ackAndSend(k *call, h http.Header) (int, any, error) {
	from, m, err := k.open("lease", k.r.Header.Get("Spooler-Lease"))
	if err != nil {
		return 0, nil, err
	}
	k.r.SetPathValue("queue", k.r.Header.Get("Spooler-Queue"))
	to, err := k.queue()
	if err != nil {
		return 0, nil, err
	}
	key := k.r.Header.Get("Spooler-Dedup-String")
	if key != "" {
		if number, ok := k.s.duplicate(to, key, k.nowMs); ok {
			no := refuse(http.StatusConflict, "dedup_claimed")
			no.details = map[string]any{"id": to.id(number)}
			return 0, nil, no
		}
	}
	number := to.next + 1
	if k.s.luck(AckWithoutAppend, 10) {
		to.next = number
	} else {
		k.s.append(to, key, k.body, k.delaySeconds(), k.nowMs)
	}
	if !k.s.luck(AppendWithoutAck, 10) {
		k.s.ack(from, m)
	}
	h.Set("Spooler-Message-Id", to.id(number))
	return http.StatusCreated, nil, nil
}
