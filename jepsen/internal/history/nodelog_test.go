package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const printedLog = `{"index":1,"term":1,"kind":"configuration","members":["n1/00 Voter"],"hash":"01"}
{"index":2,"term":2,"kind":"batch","appendedAt":"2026-01-02T03:04:05Z","commands":[{"op":"send","queue":"q","payloadDigest":"2cf24dba5fb0a30e","result":{"outcome":"appended","id":"1-9"}}],"hash":"02"}
{"index":3,"kind":"damaged","damage":"entry 3 does not have its checksum"}
{"summary":{"nodeId":"n1","first":1,"last":3,"damages":["log: entry 3"]}}
`

func TestReadNodeLog(t *testing.T) {
	l, err := ReadNodeLog("n1", strings.NewReader(printedLog))
	if err != nil {
		t.Fatal(err)
	}
	if l.First != 1 || l.Last != 3 || len(l.Damages) != 1 || len(l.Entries) != 2 || l.Entries[0].Hash != "01" {
		t.Fatalf("read %+v", l)
	}
	c := l.Entries[1].Commands[0]
	if c.PayloadDigest != PayloadDigest("hello") || c.Result.Outcome != LogAppended || c.Result.ID != "1-9" {
		t.Errorf("the command is %+v", c)
	}
	for name, text := range map[string]string{
		"cut off": strings.Split(printedLog, "\n")[0] + "\n", "no JSON": "INDEX TERM\n", "empty": "",
	} {
		if _, err := ReadNodeLog("n1", strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestContentIsWhatNodesAgreeOn: results, digests and when a node took an entry
// are left out.
func TestContentIsWhatNodesAgreeOn(t *testing.T) {
	content := func(old, with string) string {
		l, err := ReadNodeLog("n1", strings.NewReader(strings.Replace(printedLog, old, with, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return l.Entries[1].Content
	}
	same := content("", "")
	for old, with := range map[string]string{`"hash":"02"`: `"hash":"03"`, `,"result":{"outcome":"appended","id":"1-9"}`: "", "04:05Z": "04:06Z"} {
		if content(old, with) != same {
			t.Errorf("%s counts", old)
		}
	}
	for old, with := range map[string]string{`"term":2`: `"term":3`, "2cf2": "2cf3", `"queue":"q"`: `"queue":"r"`} {
		if content(old, with) == same {
			t.Errorf("%s does not count", old)
		}
	}
}

func TestLoadNodeLogs(t *testing.T) {
	dir := t.TempDir()
	if logs, err := LoadNodeLogs(dir); err != nil || len(logs) != 0 {
		t.Errorf("from nothing: %d logs, %v", len(logs), err)
	}
	for _, node := range []string{"n2", "n1"} {
		if err := os.MkdirAll(filepath.Join(dir, node), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, node, LogFile), []byte(printedLog), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := LoadNodeLogs(dir)
	if err != nil || len(logs) != 2 || logs[0].Node != "n1" {
		t.Errorf("%d logs, %v", len(logs), err)
	}
}
