package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/checker"
	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/fake"
	"github.com/spoolraft/spoolraft/jepsen/internal/fusefs"
	"github.com/spoolraft/spoolraft/jepsen/internal/history"
	"github.com/spoolraft/spoolraft/jepsen/internal/mutant"
	"github.com/spoolraft/spoolraft/jepsen/internal/nemesis"
	"github.com/spoolraft/spoolraft/jepsen/internal/report"
	"github.com/spoolraft/spoolraft/jepsen/internal/runner"
	"github.com/spoolraft/spoolraft/jepsen/internal/workload"
)

// options are the flags of run.
type options struct {
	deploy, workload, faults string
	duration, every          time.Duration
	timeout, patience        time.Duration
	rate, concurrency, nodes int
	seed                     uint64
	out, binary, image       string
	logStore, serverArgs     string
	plant                    string
	snapshotBytes            int
	journal, keep            bool
}

func parse(args []string, errOut io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("jepsen run", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.deploy, "deploy", "process", "where the cluster runs: process, compose, or fake (in memory)")
	f.StringVar(&o.workload, "workload", workload.KeyedSend, "what clients do; see jepsen list")
	f.StringVar(&o.faults, "faults", "", "what is injected, separated by commas; see jepsen list")
	f.DurationVar(&o.duration, "time", time.Minute, "how long clients and faults go on")
	f.DurationVar(&o.every, "every", 5*time.Second, "mean time between two faults")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long a client waits for an answer")
	f.DurationVar(&o.patience, "patience", time.Minute, "how long the cluster may take to be well after the last fault")
	f.IntVar(&o.rate, "rate", 100, "units of work a second over all clients; 0: as fast as they can")
	f.IntVar(&o.concurrency, "concurrency", 12, "how many clients")
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	f.Uint64Var(&o.seed, "seed", 0, "what every choice follows from; 0: one is drawn and printed")
	f.StringVar(&o.out, "out", "", "directory for history, report, logs and data (a new one below the temporary directory)")
	f.StringVar(&o.binary, "binary", "", "the server (built from ./cmd/spoolraft)")
	f.StringVar(&o.image, "image", "spoolraft:latest", "the image for --deploy compose")
	f.StringVar(&o.logStore, "log-store", "wal", "the server's log store: wal or bolt")
	f.StringVar(&o.serverArgs, "server-args", "", "more flags for the server, separated by spaces")
	f.StringVar(&o.plant, "plant", "", "a bug to plant, to see that it is found; see jepsen list")
	f.IntVar(&o.snapshotBytes, "snapshot-bytes", 0, "how much the log grows between snapshots; 0: as usual, or less where a fault is about snapshots")
	f.BoolVar(&o.journal, "journal", false, "at a power loss, any fsync has made all names safe, as the journal of ext4 does; else only that of the directory has")
	f.BoolVar(&o.keep, "keep", false, "keep the data directories of a run that passed, too")
	if err := f.Parse(args); err != nil {
		return nil, usageError{err}
	}
	switch {
	case f.NArg() > 0:
		return nil, usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	case o.concurrency < 1 || o.nodes < 1 || o.rate < 0 || o.duration <= 0 || o.every <= 0:
		return nil, usageError{errors.New("--concurrency, --nodes, --time and --every must be positive, and --rate not negative")}
	case o.deploy == "compose" && o.nodes != 3:
		return nil, usageError{errors.New("the compose file has three nodes")}
	case o.plant != "" && !o.canPlant():
		return nil, usageError{fmt.Errorf("there is no bug %q to plant in --deploy %s", o.plant, o.deploy)}
	}
	_, err := workload.New(o.workload)
	if err = errors.Join(err, nemesis.Known(o.faultNames())); err != nil {
		return nil, usageError{err}
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	return o, nil
}

// lyingDisk is the bug that can be planted under real processes: a disk that
// acknowledges flushes and makes nothing safe.
const lyingDisk = "lying-disk"

func (o *options) canPlant() bool {
	if o.deploy == "fake" {
		return slices.Contains(fake.Bugs(), fake.Bug(o.plant))
	}
	if o.plant == lyingDisk {
		return nemesis.NeedsDisks(o.faultNames())
	}
	_, err := mutant.Find(o.plant)
	return err == nil && o.deploy == "process" && o.binary == ""
}

// faultNames are those that were asked for, and those that belong to the workload.
func (o *options) faultNames() []string {
	names := strings.FieldsFunc(o.faults, func(r rune) bool { return r == ',' || r == ' ' })
	if o.workload != workload.Membership {
		return names
	}
	operations := nemesis.Operations()
	return append(operations, slices.DeleteFunc(names, func(n string) bool { return slices.Contains(operations, n) })...)
}

// runCommand makes a run and checks it.
func runCommand(ctx context.Context, args []string, out, errOut io.Writer) error {
	o, err := parse(args, errOut)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.out == "" {
		if o.out, err = os.MkdirTemp("", "jepsen-"); err != nil {
			return err
		}
	}
	s, err := o.execute(ctx, out)
	if err == nil && !s.Passed() {
		return errViolation
	}
	return err
}

// execute makes a run into o.out, tells out about it, and checks it.
func (o *options) execute(ctx context.Context, out io.Writer) (*report.Summary, error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "seed %d, results in %s\n", o.seed, o.out)
	started := time.Now()
	log := func(format string, args ...any) {
		fmt.Fprintf(out, "%6.1f s  %s\n", time.Since(started).Seconds(), strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	cluster, err := o.start(ctx)
	if err != nil {
		return nil, err
	}
	err = o.run(ctx, cluster, log)
	var s *report.Summary
	if err == nil {
		s, err = check(o.out, out)
	}
	if s == nil || !s.Passed() || o.keep {
		err = errors.Join(err, cluster.Collect(filepath.Join(o.out, runner.NodesDir), true))
	}
	if cerr := errors.Join(cluster.Close(), os.RemoveAll(o.workDir())); cerr != nil && err == nil {
		err = fmt.Errorf("clean up: %w", cerr)
	}
	return s, err
}

// run makes the run on a cluster that was started.
func (o *options) run(ctx context.Context, c deploy.Cluster, log func(string, ...any)) error {
	w, err := workload.New(o.workload)
	if err != nil {
		return usageError{err}
	}
	faults, err := nemesis.Find(o.faultNames(), c)
	if err != nil {
		return usageError{err}
	}
	return runner.Run(ctx, runner.Config{
		Cluster: c, Workload: w, Faults: faults, Dir: o.out,
		Timeout: o.timeout, Patience: o.patience, Log: log,
		Header: history.Header{
			Seed: o.seed, Workload: o.workload, Faults: o.faultNames(), Deploy: o.deploy, Plant: o.plant,
			Concurrency: o.concurrency, Rate: o.rate, TimeMs: o.duration.Milliseconds(), EveryMs: o.every.Milliseconds(),
		},
	})
}

// workDir is where the nodes live during the run.
func (o *options) workDir() string { return filepath.Join(o.out, "work") }

// start starts the cluster.
func (o *options) start(ctx context.Context) (deploy.Cluster, error) {
	switch o.deploy {
	case "fake":
		return deploy.NewFake(o.nodes, o.seed, fake.Bug(o.plant))
	case "process":
		return o.startProcesses(ctx)
	case "compose":
		return deploy.NewCompose(deploy.ComposeOptions{
			File: "docker-compose.yml", Project: fmt.Sprintf("jepsen%d", os.Getpid()), Image: o.image, Network: "cluster",
		})
	}
	return nil, usageError{fmt.Errorf("there is no deployment %q; there are process, compose and fake", o.deploy)}
}

func (o *options) startProcesses(ctx context.Context) (deploy.Cluster, error) {
	disks := nemesis.NeedsDisks(o.faultNames())
	if disks {
		if err := fusefs.Available(); err != nil {
			return nil, fmt.Errorf("the faults of the disk need a user-space file system under the data directories: %w", err)
		}
	}
	if o.binary == "" {
		if err := o.build(ctx); err != nil {
			return nil, err
		}
	}
	work, err := filepath.Abs(o.workDir())
	if err != nil {
		return nil, err
	}
	return deploy.NewProcess(deploy.ProcessOptions{
		Binary: o.binary, Dir: work, Nodes: o.nodes, Seed: o.seed, LogStore: o.logStore,
		Env: o.environment(), Disks: disks, Disk: fusefs.Options{Journal: o.journal, Lying: o.plant == lyingDisk}, Args: strings.Fields(o.serverArgs),
	})
}

// build builds the server, with the bug that is to be planted in it.
func (o *options) build(ctx context.Context) error {
	o.binary = filepath.Join(o.workDir(), "spoolraft")
	if m, err := mutant.Find(o.plant); err == nil {
		if err := os.MkdirAll(o.workDir(), 0o755); err != nil {
			return err
		}
		return m.Build(ctx, o.workDir(), o.binary)
	}
	return buildServer(ctx, o.binary)
}

// environment makes nodes snapshot early where a fault is about snapshots:
// with the usual amount of log between two, a short run would see none.
func (o *options) environment() []string {
	bytes := o.snapshotBytes
	if bytes == 0 && (strings.Contains(o.faults, "lag") || strings.Contains(o.faults, "snapshot")) {
		bytes = 100_000
	}
	if bytes == 0 {
		return nil
	}
	return []string{fmt.Sprintf("SPOOLRAFT_TEST_SNAPSHOT_BYTES=%d", bytes)}
}

// checkCommand checks a kept history again.
func checkCommand(args []string, out, _ io.Writer) error {
	if len(args) != 1 {
		return usageError{errors.New("check takes the directory of a run")}
	}
	s, err := check(args[0], out)
	if err == nil && !s.Passed() {
		return errViolation
	}
	return err
}

// check loads the history, runs every checker, and writes summary and page.
func check(dir string, out io.Writer) (*report.Summary, error) {
	h, err := history.Load(filepath.Join(dir, runner.HistoryFile))
	if err != nil {
		return nil, err
	}
	if h.Logs, err = history.LoadNodeLogs(filepath.Join(dir, runner.NodesDir)); err != nil {
		return nil, err
	}
	s := report.Summarize(h, checker.Check(h))
	var text, page bytes.Buffer
	s.Write(&text)
	if err := report.WritePage(&page, h, s); err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "summary.txt"), text.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "report.html"), page.Bytes(), 0o644),
	)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	fmt.Fprintf(out, "%sreport: %s\n", text.Bytes(), filepath.Join(dir, "report.html"))
	return s, nil
}
