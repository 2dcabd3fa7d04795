// Command artefact makes the module as a registry would have it: a folder that GOPROXY can name.
//
//	go run ./artefact VERSION OUTPUT_FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	path = "github.com/lockkeeper/lockkeeper/clients/go"
	// root is the folder of the module, and license that of the repository, which a module of a
	// subfolder gets.
	root    = ".."
	license = "../../../LICENSE"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: artefact VERSION OUTPUT_FOLDER")
	}
	if err := run(os.Args[1], filepath.Join(os.Args[2], path, "@v")); err != nil {
		log.Fatal(err)
	}
}

func run(version, output string) error {
	if err := os.MkdirAll(output, 0o755); err != nil {
		return err
	}
	files, err := sources()
	if err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(output, version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.Create(archive, module.Version{Path: path, Version: version}, files); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	texts := map[string][]byte{
		version + ".mod": mod, version + ".info": info, "list": []byte(version + "\n"),
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(output, name), text, 0o644); err != nil {
			return err
		}
	}
	return archive.Close()
}

// sources are the files that git would commit, but those of modules in subfolders.
func sources() ([]zip.File, error) {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir, list.Stderr = root, os.Stderr
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := []zip.File{source{"LICENSE", license}}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		if !strings.HasPrefix(name, "tools/") {
			files = append(files, source{name, filepath.Join(root, name)})
		}
	}
	return files, nil
}

// source is a file, and its name in the archive.
type source struct{ name, path string }

func (s source) Path() string                 { return s.name }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(s.path) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(s.path) }
