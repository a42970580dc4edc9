package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Format is the version of the file format.
const Format = 1

// Header says how the run was made. With it, the run can be made again.
type Header struct {
	Format      int       `json:"format"`
	Seed        uint64    `json:"seed"`
	Workload    string    `json:"workload"`
	Faults      []string  `json:"faults"`
	Deploy      string    `json:"deploy"`
	Plant       string    `json:"plant,omitempty"` // the bug planted on purpose, if any
	Nodes       []string  `json:"nodes"`
	Concurrency int       `json:"concurrency"`
	Rate        int       `json:"rate"`
	TimeMs      int64     `json:"timeMs"`
	EveryMs     int64     `json:"everyMs"`
	StartedAt   time.Time `json:"startedAt"`
	// ClockToleranceMs is how far the run's faults may carry log time away
	// from real time. Rules about time allow for it.
	ClockToleranceMs int64 `json:"clockToleranceMs"`
}

// Fault is one injected fault, from its start to its end.
type Fault struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // node or link
	Detail string `json:"detail,omitempty"`
	Start  int64  `json:"start"`
	Struck int64  `json:"struck,omitempty"` // when it had taken effect
	End    int64  `json:"end"`
	Error  string `json:"error,omitempty"`
}

// Phase marks where a part of the run began.
type Phase struct {
	Name string `json:"name"`
	At   int64  `json:"at"`
}

// The phases of a run, in their order.
const (
	PhaseRun   = "run"
	PhaseHeal  = "heal"
	PhaseRetry = "retry"
	PhaseRead  = "read"
	PhaseDrain = "drain"
	PhaseEnd   = "end"
)

// History is a whole run in memory. Ops are sorted by number, which is the
// order of their start.
type History struct {
	Header Header
	Ops    []*Op
	Faults []Fault
	Phases []Phase
	// Digests are in no order. Logs come from files beside the history.
	Digests []Digest
	Logs    []*NodeLog
}

// Op returns the operation with the number, or nil.
func (h *History) Op(id int64) *Op {
	i, ok := slices.BinarySearchFunc(h.Ops, id, func(o *Op, id int64) int { return int(o.ID - id) })
	if !ok {
		return nil
	}
	return h.Ops[i]
}

// PhaseStart returns when the phase began. ok is false where the run never
// reached it.
func (h *History) PhaseStart(name string) (at int64, ok bool) {
	for _, p := range h.Phases {
		if p.Name == name {
			return p.At, true
		}
	}
	return 0, false
}

// line is one line of the file: exactly one field is set.
type line struct {
	Header *Header `json:"header,omitempty"`
	Op     *Op     `json:"op,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Phase  *Phase  `json:"phase,omitempty"`
	Digest *Digest `json:"digest,omitempty"`
}

// Recorder writes a history while the run goes on. It is safe for concurrent
// use. The first error of the writer is kept for Close.
type Recorder struct {
	started time.Time

	mu   sync.Mutex
	last int64
	out  *bufio.Writer
	file io.Closer
	err  error
}

// Create makes the file, writes the header and starts the run's clock.
func Create(path string, h Header) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	r := &Recorder{started: time.Now(), out: bufio.NewWriterSize(f, 1<<16), file: f}
	h.Format = Format
	h.StartedAt = r.started.UTC()
	r.write(line{Header: &h})
	return r, nil
}

// Now is the time since the run began.
func (r *Recorder) Now() int64 { return int64(time.Since(r.started)) }

// Begin numbers the operation and stamps its start.
func (r *Recorder) Begin(o *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	o.ID = r.last
	o.Start = r.Now()
}

// End stamps the operation's end and writes it.
func (r *Recorder) End(o *Op) {
	o.End = r.Now()
	r.write(line{Op: o})
}

// Fault writes a fault that is over.
func (r *Recorder) Fault(f Fault) { r.write(line{Fault: &f}) }

// Digest writes what a node told of its state just now.
func (r *Recorder) Digest(d Digest) {
	d.At = r.Now()
	r.write(line{Digest: &d})
}

// Phase marks the beginning of a phase.
func (r *Recorder) Phase(name string) { r.write(line{Phase: &Phase{Name: name, At: r.Now()}}) }

func (r *Recorder) write(l line) {
	b, err := json.Marshal(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.out.Write(append(b, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

// Close flushes the file and returns the first error of the whole recording.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.out.Flush(), r.file.Close()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Load reads a history. A last line that was cut short, as a killed run
// leaves it, is left out; any other damage is an error.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return h, nil
}

// Read is Load over any reader.
func Read(in io.Reader) (*History, error) {
	h := &History{}
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if (n == 1) != (l.Header != nil) {
			return nil, fmt.Errorf("line %d: exactly the first line must be the header", n)
		}
		h.add(l)
	}
	if h.Header.Format != Format {
		return nil, fmt.Errorf("format is %d, this harness reads %d", h.Header.Format, Format)
	}
	slices.SortFunc(h.Ops, func(a, b *Op) int { return int(a.ID - b.ID) })
	slices.SortFunc(h.Faults, func(a, b Fault) int { return int(a.Start - b.Start) })
	return h, nil
}

func (h *History) add(l line) {
	switch {
	case l.Header != nil:
		h.Header = *l.Header
	case l.Op != nil:
		h.Ops = append(h.Ops, l.Op)
	case l.Fault != nil:
		h.Faults = append(h.Faults, *l.Fault)
	case l.Phase != nil:
		h.Phases = append(h.Phases, *l.Phase)
	case l.Digest != nil:
		h.Digests = append(h.Digests, *l.Digest)
	}
}
