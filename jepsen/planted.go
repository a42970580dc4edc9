package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/mutant"
	"github.com/spoolraft/spoolraft/jepsen/internal/report"
)

// planted is a row of bugs to plant, one at a time.
type planted struct {
	bugs  []mutant.Mutant
	tries int
	seed  uint64 // of the first try of each, each later one has the next; 0: that of the bug
	out   string
}

// finding is what became of one bug.
type finding struct {
	bug     mutant.Mutant
	seed    uint64
	tries   int
	by      *checker.Violation // nil: those that have to find it did not
	after   time.Duration      // clients and faults had begun
	others  []string           // checkers that found something as well
	problem error              // the run could not be made
}

func parsePlanted(args []string, errOut io.Writer) (*planted, error) {
	p := &planted{}
	f := flag.NewFlagSet("jepsen planted", flag.ContinueOnError)
	f.SetOutput(errOut)
	only := f.String("only", "", "these bugs, separated by commas; see jepsen list")
	quick := f.Bool("quick", false, "those that take a few seconds each")
	f.IntVar(&p.tries, "tries", 3, "how many runs to make until a bug is found")
	f.Uint64Var(&p.seed, "seed", 0, "seed of the first run of each bug, each later one has the next; 0: the bug's own")
	f.StringVar(&p.out, "out", "", "directory for each run's results (a new one below the temporary directory)")
	if err := f.Parse(args); err != nil {
		return nil, usageError{err}
	}
	all, err := mutant.All()
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if _, err := mutant.Find(name); err != nil {
			return nil, usageError{err}
		}
	}
	for _, m := range all {
		if (len(names) == 0 || slices.Contains(names, m.Name)) && (m.Quick || !*quick) {
			p.bugs = append(p.bugs, m)
		}
	}
	if p.tries < 1 || f.NArg() > 0 {
		return nil, usageError{errors.New("--tries must be positive, and there are no arguments")}
	}
	return p, nil
}

// plantedCommand plants the bugs and prints which were found, and how soon.
func plantedCommand(ctx context.Context, args []string, out, errOut io.Writer) error {
	p, err := parsePlanted(args, errOut)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if p.out == "" {
		if p.out, err = os.MkdirTemp("", "jepsen-"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d bugs, results in %s\n", len(p.bugs), p.out)
	var all []finding
	for _, m := range p.bugs {
		found, err := p.look(ctx, m)
		if err != nil {
			return err
		}
		all = append(all, found)
		fmt.Fprintf(out, "%s: %s\n", m.Name, found.verdict())
	}
	if err := writeFindings(all, out); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(f finding) bool { return f.by == nil }) {
		return errUnnoticed
	}
	return nil
}

// look makes runs with the bug until it is found.
func (p *planted) look(ctx context.Context, m mutant.Mutant) (f finding, err error) {
	for try := range p.tries {
		o, err := p.options(m, try)
		if err != nil {
			return f, err
		}
		if err := os.RemoveAll(o.out); err != nil { // of a run before
			return f, err
		}
		f = finding{bug: m, seed: o.seed, tries: try + 1}
		var log bytes.Buffer
		s, err := o.execute(ctx, &log)
		if ctx.Err() != nil {
			return f, fmt.Errorf("the runs were ended: %w", ctx.Err())
		}
		if err != nil {
			f.problem = err
			fmt.Fprintf(&log, "%v\n", err)
		}
		_ = os.WriteFile(filepath.Join(o.out, "run.txt"), log.Bytes(), 0o644) // for people; the verdict does not hang on it
		if s != nil {
			f.judge(s)
		}
		if f.by != nil {
			break
		}
	}
	return f, nil
}

// options are those of a run with the bug.
func (p *planted) options(m mutant.Mutant, try int) (*options, error) {
	args := append(slices.Clone(m.Args), "--plant", m.Name, "--out", filepath.Join(p.out, fmt.Sprintf("%s-%d", m.Name, try+1)))
	o, err := parse(args, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("the run of %s: %w", m.Name, err)
	}
	if p.seed > 0 {
		o.seed = p.seed
	}
	o.seed += uint64(try)
	return o, nil
}

// judge picks the first violation of those that have to find the bug.
func (f *finding) judge(s *report.Summary) {
	for _, v := range s.Violations() {
		if !slices.Contains(f.bug.Finder, v.Checker) {
			if !slices.Contains(f.others, v.Checker) {
				f.others = append(f.others, v.Checker)
			}
			continue
		}
		at := time.Duration(v.At)
		if at == 0 {
			at = s.Length
		}
		if after := at - s.Began; f.by == nil || after < f.after {
			f.by, f.after = &v, after
		}
	}
}

func (f *finding) verdict() string {
	switch {
	case f.by != nil:
		return fmt.Sprintf("found by %s/%s after %.1f s: %s", f.by.Checker, f.by.Rule, f.after.Seconds(), f.by.Text)
	case f.problem != nil:
		return fmt.Sprintf("NOT FOUND, the run could not be made: %v", f.problem)
	default:
		return "NOT FOUND"
	}
}

func writeFindings(all []finding, out io.Writer) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bug\tfound by\tafter\tseed\truns\tfound too by")
	for _, f := range all {
		by, after := "NOT FOUND", "-"
		if f.by != nil {
			by, after = f.by.Checker+"/"+f.by.Rule, strconv.FormatFloat(f.after.Seconds(), 'f', 1, 64)+" s"
		}
		others := "-"
		if len(f.others) > 0 {
			others = strings.Join(f.others, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", f.bug.Name, by, after, f.seed, f.tries, others)
	}
	return w.Flush()
}
