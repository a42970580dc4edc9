package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// What a rule can do.
const (
	faultDrop  = "drop"  // the call is carried out, its connection reset instead of an answer
	faultReset = "reset" // the connection is reset, the call never made
	faultDelay = "delay" // the call, or its answer, takes longer
	fault500   = "500"   // operation_unconfirmed, as of a cluster that lost track
	fault502   = "502"   // as of a proxy that lost the server
	fault503   = "503"   // as of a cluster without a leader
	fault504   = "504"   // as of a proxy that lost patience
)

// When it does so: before the call is carried out, or after.
const (
	before = "before"
	after  = "after"
)

// timing says for each fault when it can strike, the default first.
var timing = map[string][]string{
	faultDrop:  {after},
	faultReset: {before},
	faultDelay: {before, after},
	fault500:   {after, before},
	fault502:   {after, before},
	fault503:   {before},
	fault504:   {after, before},
}

const (
	maxDelay = time.Minute
	maxCount = 1_000_000
	maxRules = 100
)

// spec is a rule as it is given and as it is listed.
type spec struct {
	Fault       string  `json:"fault"`
	When        string  `json:"when"`
	Operation   string  `json:"operation,omitempty"` // "": every call under /v1
	Spool       string  `json:"spool,omitempty"`     // "": every one
	Queue       string  `json:"queue,omitempty"`     // "": every one, and calls that name none
	DelayMs     int64   `json:"delayMs,omitempty"`
	Probability float64 `json:"probability"`
	Count       uint64  `json:"count,omitempty"` // 0: no limit
	Seed        uint32  `json:"seed"`
}

// rule is a spec at work. The injector's lock guards it.
type rule struct {
	spec
	id       uint64
	random   *rand.Rand
	matched  uint64 // calls that it could have struck
	injected uint64 // calls that it struck
	hidden   uint64 // of these, calls whose success the client was not told
}

// newRule sets a rule to work. What it draws depends on its seed and on what it
// strikes: rules with one seed would else draw the same numbers one call apart,
// and strike in chains.
func newRule(id uint64, s spec) *rule {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %s %s", s.Fault, s.When, s.Operation, s.Spool, s.Queue) // never fails
	return &rule{spec: s, id: id, random: rand.New(rand.NewPCG(uint64(s.Seed), h.Sum64()))}
}

// strikes counts a call and draws whether the fault is for it.
func (r *rule) strikes(t target) bool {
	if r.Operation != "" && r.Operation != t.operation.name ||
		r.Spool != "" && r.Spool != t.spool ||
		r.Queue != "" && r.Queue != t.queue ||
		r.Count > 0 && r.injected == r.Count {
		return false
	}
	r.matched++
	if r.random.Float64() >= r.Probability {
		return false
	}
	r.injected++
	return true
}

// parseSpec reads and checks a rule. Its errors are for people.
func parseSpec(body []byte) (spec, error) {
	s := spec{Probability: 1, Seed: rand.Uint32()}
	if err := readMembers(body, s.set); err != nil {
		return s, err
	}
	return s, s.check()
}

// set takes one member of the JSON object.
func (s *spec) set(name string, value json.Token) error {
	switch name {
	case "fault":
		return setText(&s.Fault, name, value)
	case "when":
		return setText(&s.When, name, value)
	case "operation":
		return setText(&s.Operation, name, value)
	case "spool":
		return setText(&s.Spool, name, value)
	case "queue":
		return setText(&s.Queue, name, value)
	case "delayMs":
		n, err := whole(name, value, 1, uint64(maxDelay/time.Millisecond))
		s.DelayMs = int64(n)
		return err
	case "count":
		n, err := whole(name, value, 1, maxCount)
		s.Count = n
		return err
	case "seed":
		n, err := whole(name, value, 0, 1<<32-1)
		s.Seed = uint32(n)
		return err
	case "probability":
		n, ok := value.(json.Number)
		p, err := n.Float64()
		if !ok || err != nil || p <= 0 || p > 1 {
			return errors.New("probability must be a number above 0 and at most 1")
		}
		s.Probability = p
		return nil
	default:
		return fmt.Errorf("there is no member %q; a rule has fault, when, operation, spool, queue, delayMs, probability, count and seed", name)
	}
}

// check completes the rule and refuses what would mean nothing, or would break
// the promise of an answer.
func (s *spec) check() error {
	times, known := timing[s.Fault]
	if !known {
		return errors.New("fault must be one of drop, reset, delay, 500, 502, 503 and 504, as text")
	}
	if s.When == "" {
		s.When = times[0]
	}
	switch {
	case s.When != before && s.When != after:
		return errors.New("when must be before or after")
	case !slices.Contains(times, s.When):
		return errors.New(wrongTime[s.Fault])
	case (s.Fault == faultDelay) != (s.DelayMs > 0):
		return fmt.Errorf("a delay, and nothing else, needs delayMs, from 1 to %d", maxDelay/time.Millisecond)
	}
	return s.checkTarget()
}

// wrongTime says why a fault cannot strike at the other time.
var wrongTime = map[string]string{
	fault503:   "a 503 promises that the call was not carried out, so it can only be answered before it; for an answer after the call use 500, 502, 504 or drop",
	faultDrop:  "a drop loses the answer of a call that was carried out, so it is always after it; to lose the call itself use reset",
	faultReset: "a reset loses the call before it is carried out; to lose the answer after it use drop",
}

func (s *spec) checkTarget() error {
	if s.Operation != "" {
		op := operationNamed(s.Operation)
		if op == nil {
			return fmt.Errorf("there is no operation %q; there are %s", s.Operation, operationNames())
		}
		if s.Queue != "" && !op.queue {
			return fmt.Errorf("the operation %s names no queue, so the rule would never strike: leave the queue out", s.Operation)
		}
	}
	if s.Spool != "" && !fsm.ValidName(s.Spool) || s.Queue != "" && !fsm.ValidName(s.Queue) {
		return fmt.Errorf("spool and queue must be names: 1 to %d characters of A-Z a-z 0-9 _ : -", fsm.MaxNameBytes)
	}
	return nil
}

// readMembers walks over one flat JSON object. It refuses what encoding/json
// would let pass: other cases of a name, repetitions, null, trailing data.
func readMembers(body []byte, set func(name string, value json.Token) error) error {
	malformed := errors.New(`the body must be one JSON object of texts and numbers, like {"fault": "drop", "operation": "send"}`)
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return malformed
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return malformed
		}
		value, err := d.Token()
		if err != nil {
			return malformed
		}
		if seen[name] {
			return fmt.Errorf("the member %q is there twice", name)
		}
		seen[name] = true
		if err := set(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return malformed
	}
	if _, err := d.Token(); err != io.EOF {
		return malformed
	}
	return nil
}

func setText(to *string, name string, value json.Token) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return fmt.Errorf("%s must be text that is not empty; leave it out for its default", name)
	}
	*to = text
	return nil
}

func whole(name string, value json.Token, least, most uint64) (uint64, error) {
	number, _ := value.(json.Number)
	n, err := strconv.ParseUint(number.String(), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", name, least, most)
	}
	return n, nil
}
