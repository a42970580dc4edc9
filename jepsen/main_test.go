package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/jepsen/internal/fake"
	"github.com/spoolraft/spoolraft/jepsen/internal/runner"
)

// jepsen runs the command line and returns exit code and output.
func jepsen(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = command(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"nothing":          {"", exitPassed, "jepsen check DIR"},
		"list":             {"list", exitPassed, "power-all"},
		"help of run":      {"run --help", exitPassed, "-workload"},
		"help of matrix":   {"matrix --help", exitPassed, "-parallel"},
		"unknown command":  {"fly", exitUsage, `no command "fly"`},
		"unknown flag":     {"run --fly", exitUsage, "fly"},
		"unknown workload": {"run --deploy fake --workload fly", exitUsage, `no workload "fly"`},
		"unknown fault":    {"run --deploy fake --faults fly --time 1ms", exitUsage, `no fault "fly"`},
		"fault too many":   {"run --deploy fake --faults power-all --time 1ms", exitUsage, "--deploy process"},
		"unknown deploy":   {"run --deploy fly", exitUsage, `no deployment "fly"`},
		"unknown bug":      {"run --deploy fake --plant fly", exitUsage, `no bug "fly"`},
		"bug elsewhere":    {"run --deploy process --plant forget-keys", exitUsage, "forget-keys"},
		"bad number":       {"run --concurrency 0", exitUsage, "--concurrency"},
		"extra argument":   {"run --deploy fake fly", exitUsage, "fly"},
		"matrix of none":   {"matrix --workloads fly -- --deploy fake", exitUsage, `no workload "fly"`},
		"check nothing":    {"check", exitUsage, "directory"},
		"check nowhere":    {"check /no/such/directory", exitNoRun, "history"},
	} {
		args := strings.Fields(c.args)
		if len(args) > 0 && args[0] == "run" {
			args = append(args[:1:1], append([]string{"--out", t.TempDir()}, args[1:]...)...)
		}
		code, out, errOut := jepsen(args...)
		if code != c.code || !strings.Contains(out+errOut, c.says) || strings.Contains(errOut, "help requested") {
			t.Errorf("%s: exit %d, output %q, errors %q", name, code, out, errOut)
		}
	}
}

func TestRunAndCheckAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "run")
	args := []string{"run", "--deploy", "fake", "--time", "1s", "--rate", "200", "--seed", "5", "--out", dir}
	code, out, errOut := jepsen(args...)
	if code != exitPassed || !strings.Contains(out, "PASSED") || !strings.Contains(out, "seed 5") {
		t.Fatalf("exit %d: %s %s", code, out, errOut)
	}
	for _, name := range []string{runner.HistoryFile, "summary.txt", "report.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if code, out, _ := jepsen("check", dir); code != exitPassed || !strings.Contains(out, "PASSED") {
		t.Errorf("checked again: exit %d, %s", code, out)
	}
}

func TestViolationIsExitCode1(t *testing.T) {
	dir := t.TempDir()
	code, out, errOut := jepsen("run", "--deploy", "fake", "--plant", string(fake.RefuseCommitted), "--time", "2s", "--rate", "300", "--seed", "5", "--out", dir)
	if code != exitViolation || !strings.Contains(out, "refused-but-there") {
		t.Fatalf("exit %d: %s %s", code, out, errOut)
	}
	if code, _, _ := jepsen("check", dir); code != exitViolation {
		t.Errorf("checked again: exit %d", code)
	}
}

func TestMatrix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "matrix")
	args := []string{"matrix", "--out", dir, "--seed", "5", "--parallel", "2", "--binary", "none", "--workloads", "keyed-send,window", "--faults", "kill pause,kill",
		"--", "--deploy", "fake", "--time", "1s", "--rate", "300"}
	code, out, errOut := jepsen(args...)
	if code != exitPassed {
		t.Fatalf("exit %d: %s %s", code, out, errOut)
	}
	table, err := os.ReadFile(filepath.Join(dir, "matrix.txt"))
	if err != nil || !strings.HasSuffix(out, string(table)) || strings.Count(string(table), verdictPassed) != 4 {
		t.Errorf("table %q, %v; output %q", table, err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "window+pause+kill", runner.HistoryFile)); err != nil {
		t.Error(err)
	}
	code, out, _ = jepsen(append(args, "--plant", string(fake.RefuseCommitted))...)
	if code != exitViolation || !strings.Contains(out, verdictFailed) {
		t.Errorf("with a bug planted: exit %d, %s", code, out)
	}
}
