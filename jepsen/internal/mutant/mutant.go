package mutant

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed bugs/*.txt
var files embed.FS

// Mutant is the server with one bug.
type Mutant struct {
	Name   string
	Breaks string   // in a few words
	Args   []string // of the run that finds it
	Finder []string // the checkers of which one has to find it
	Quick  bool     // a few seconds are enough
	Edits  []Edit
}

// Edit is a change of one file of the server.
type Edit struct {
	File     string // from the root of the module
	Old, New string
}

// All are the bugs, by name.
func All() ([]Mutant, error) {
	names, err := fs.Glob(files, "bugs/*.txt")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []Mutant
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.Name = strings.TrimSuffix(filepath.Base(name), ".txt")
		all = append(all, m)
	}
	return all, nil
}

// Find returns the bug of that name.
func Find(name string) (Mutant, error) {
	all, err := All()
	if err != nil {
		return Mutant{}, err
	}
	i := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
	if i < 0 {
		return Mutant{}, fmt.Errorf("there is no bug %q", name)
	}
	return all[i], nil
}

const (
	editMark    = "--- "
	replaceMark = "+++\n"
)

// parse reads what doc.go describes.
func parse(text string) (m Mutant, err error) {
	head, rest, _ := strings.Cut(text, "\n"+editMark)
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.TrimSpace(line) == "":
		case !ok:
			return m, fmt.Errorf("the line %q has no key", line)
		case key == "breaks":
			m.Breaks = value
		case key == "run":
			m.Args = strings.Fields(value)
		case key == "found by":
			m.Finder = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		case key == "quick":
			m.Quick = value == "yes"
		default:
			return m, fmt.Errorf("unknown key %q", key)
		}
	}
	for part := range strings.SplitSeq("\n"+rest, "\n"+editMark) {
		file, body, _ := strings.Cut(strings.TrimPrefix(part, "\n"), "\n")
		before, after, ok := strings.Cut("\n"+strings.TrimSuffix(body, "\n")+"\n", "\n"+replaceMark)
		if !ok {
			return m, fmt.Errorf("the change of %q has no line %q", file, strings.TrimSpace(replaceMark))
		}
		m.Edits = append(m.Edits, Edit{file, strings.TrimPrefix(before, "\n"), strings.TrimSuffix(after, "\n")})
	}
	if m.Breaks == "" || len(m.Args) == 0 || len(m.Finder) == 0 {
		return m, fmt.Errorf("it does not say what breaks, how to run, or who finds it")
	}
	return m, nil
}

// Sources returns the changed files, by their path from the root.
func (m Mutant) Sources(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.File)); err != nil {
				return nil, fmt.Errorf("plant %s: %w", m.Name, err)
			}
		}
		if n := bytes.Count(text, []byte(e.Old)); n != 1 {
			return nil, fmt.Errorf("plant %s: the text to be replaced is %d times in %s, not once:\n%s", m.Name, n, e.File, e.Old)
		}
		changed[e.File] = bytes.Replace(text, []byte(e.Old), []byte(e.New), 1)
	}
	return changed, nil
}

// Root is the directory of the module in whose tree the program runs.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of the server: %w: run this in the repository", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds the server with the bug into the file. The directory takes the
// changed sources.
func (m Mutant) Build(ctx context.Context, dir, file string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	sources, err := m.Sources(root)
	if err != nil {
		return err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range sources {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
		if overlay.Replace[filepath.Join(root, name)], err = filepath.Abs(to); err != nil {
			return err
		}
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", path, "-o", file, "./cmd/spoolraft")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server with %s: %w\n%s", m.Name, err, bytes.TrimSpace(text))
	}
	return nil
}
