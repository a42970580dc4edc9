package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/report"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// matrix is many runs, each workload with each fault.
type matrix struct {
	workloads, faults []string
	runArgs           []string // flags of run, for every cell
	out, binary       string
	seed              uint64 // of the first cell; each has the next one; 0: each draws its own
	parallel          int
}

// cell is one run of a matrix and its verdict.
type cell struct {
	Workload string `json:"workload"`
	Faults   string `json:"faults"`
	Seed     uint64 `json:"seed"`
	Verdict  string `json:"verdict"`
	Ops      int    `json:"operations"`
	OK       int    `json:"ok"`
	Refused  int    `json:"refused"`
	Unknown  int    `json:"unknown"`
	Injected int    `json:"injected"`
	GapMs    int64  `json:"longestGapMs"`
}

// Verdicts of a cell.
const (
	verdictPassed = "passed"
	verdictFailed = "FAILED"
	verdictNoRun  = "no run"
)

func parseMatrix(args []string, errOut io.Writer) (*matrix, error) {
	m := &matrix{}
	f := flag.NewFlagSet("jepsen matrix", flag.ContinueOnError)
	f.SetOutput(errOut)
	workloads := f.String("workloads", strings.Join(workload.Names(), ","), "the workloads, separated by commas")
	faults := f.String("faults", strings.Join(nemesis.Names(), " "), "the faults, separated by spaces; with commas between them they come together")
	f.StringVar(&m.out, "out", "", "directory for the table and for each run's results (a new one below the temporary directory)")
	f.StringVar(&m.binary, "binary", "", "the server (built from ./cmd/spoolraft)")
	f.Uint64Var(&m.seed, "seed", 0, "seed of the first run, each later one has the next; 0: each draws its own")
	f.IntVar(&m.parallel, "parallel", 1, "how many runs at a time")
	f.Usage = func() {
		fmt.Fprintln(errOut, "Usage: jepsen matrix [flags] [-- flags of run]")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return nil, usageError{err}
	}
	m.workloads, m.faults, m.runArgs = strings.Split(*workloads, ","), strings.Fields(*faults), f.Args()
	if m.parallel < 1 {
		return nil, usageError{errors.New("--parallel must be positive")}
	}
	for i := range m.cells() {
		if _, err := m.options(i, errOut); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// cells is how many runs there are.
func (m *matrix) cells() int { return len(m.workloads) * len(m.faults) }

// options are those of the i-th run.
func (m *matrix) options(i int, errOut io.Writer) (*options, error) {
	w, faults := m.workloads[i/len(m.faults)], m.faults[i%len(m.faults)]
	args := append([]string{}, m.runArgs...)
	args = append(args, "--workload", w, "--faults", faults, "--binary", m.binary,
		"--out", filepath.Join(m.out, w+"+"+strings.ReplaceAll(faults, ",", "+")))
	if m.seed > 0 {
		args = append(args, "--seed", strconv.FormatUint(m.seed+uint64(i), 10))
	}
	return parse(args, errOut)
}

// matrixCommand makes all runs, prints the table and keeps it as JSON too. A
// run that fails does not keep others from being made.
func matrixCommand(ctx context.Context, args []string, out, errOut io.Writer) error {
	m, err := parseMatrix(args, errOut)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if err := m.prepare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d runs, results in %s\n", m.cells(), m.out)
	cells := m.runAll(ctx, out, errOut)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the runs were ended: %w", err)
	}
	if err := m.writeTable(cells, out); err != nil {
		return err
	}
	return verdictOf(cells)
}

// prepare makes the directory, and builds the server once for all runs.
func (m *matrix) prepare(ctx context.Context) (err error) {
	if m.out == "" {
		m.out, err = os.MkdirTemp("", "jepsen-")
	} else {
		err = os.MkdirAll(m.out, 0o755)
	}
	if err != nil || m.binary != "" {
		return err
	}
	m.binary = filepath.Join(m.out, "spoolraft")
	return buildServer(ctx, m.binary)
}

// runAll makes the runs, m.parallel at a time, and tells of each as it ends.
func (m *matrix) runAll(ctx context.Context, out, errOut io.Writer) []cell {
	cells := make([]cell, m.cells())
	next := make(chan int)
	var workers sync.WaitGroup
	var told sync.Mutex
	started, done := time.Now(), 0
	for range m.parallel {
		workers.Go(func() {
			for i := range next {
				cells[i] = m.runOne(ctx, i, errOut)
				told.Lock()
				done++
				c := &cells[i]
				fmt.Fprintf(out, "%7.0f s  %d of %d  %s + %s: %s, %d operations\n", time.Since(started).Seconds(),
					done, len(cells), c.Workload, c.Faults, c.Verdict, c.Ops)
				told.Unlock()
			}
		})
	}
	for i := range cells {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return cells
}

func (m *matrix) runOne(ctx context.Context, i int, errOut io.Writer) cell {
	o, err := m.options(i, errOut)
	if err != nil {
		return cell{Verdict: err.Error()} // was checked before
	}
	c := cell{Workload: o.workload, Faults: o.faults, Seed: o.seed, Verdict: verdictNoRun}
	var log bytes.Buffer
	s, err := o.execute(ctx, &log)
	if err != nil {
		fmt.Fprintf(&log, "%v\n", err)
		fmt.Fprintf(errOut, "jepsen: %s + %s: %v\n", o.workload, o.faults, err)
	}
	_ = os.WriteFile(filepath.Join(o.out, "run.txt"), log.Bytes(), 0o644) // for people; the verdict does not hang on it
	if s != nil {
		c.count(s)
	}
	return c
}

// count takes over the figures of a run.
func (c *cell) count(s *report.Summary) {
	c.Verdict = verdictPassed
	if !s.Passed() {
		c.Verdict = verdictFailed
	}
	c.Ops, c.GapMs = s.Ops, s.Gap.Length().Milliseconds()
	for _, k := range s.Kinds {
		c.OK, c.Refused, c.Unknown = c.OK+k.OK, c.Refused+k.Refused, c.Unknown+k.Unknown
	}
	for _, f := range s.Faults {
		c.Injected += f.Count - f.Failed
	}
}

func (m *matrix) writeTable(cells []cell, out io.Writer) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "workload\tfaults\tverdict\tinjected\toperations\tok\trefused\tunknown\tlongest gap\tseed")
	for _, c := range cells {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f s\t%d\n", c.Workload, c.Faults, c.Verdict, c.Injected,
			c.Ops, c.OK, c.Refused, c.Unknown, float64(c.GapMs)/1000, c.Seed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s", text.Bytes())
	data, err := json.MarshalIndent(cells, "", "  ")
	return errors.Join(err,
		os.WriteFile(filepath.Join(m.out, "matrix.txt"), text.Bytes(), 0o644),
		os.WriteFile(filepath.Join(m.out, "matrix.json"), data, 0o644))
}

// verdictOf is that of all runs: a violation counts for more than a run that
// could not be made.
func verdictOf(cells []cell) error {
	missing := 0
	for _, c := range cells {
		switch c.Verdict {
		case verdictFailed:
			return errViolation
		case verdictPassed:
		default:
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d runs could not be made", missing, len(cells))
	}
	return nil
}

// buildServer builds the server into the file.
func buildServer(ctx context.Context, file string) error {
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", file, "./cmd/spoolraft").CombinedOutput(); err != nil {
		return fmt.Errorf("build the server: %w\n%s\nRun this in the repository, or name a built one with --binary", err, bytes.TrimSpace(text))
	}
	return nil
}
