package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// verdict is what the judgement of a history comes to.
type verdict struct {
	judged     int // operations of objects that promise something
	objects    int
	unpromised []string // kinds of which nothing is promised in this run
	refused    []string // objects whose history is not linearizable
	unjudged   []string // objects that were not judged in time
}

func (v verdict) accepted() bool { return len(v.refused)+len(v.unjudged) == 0 }

// judge judges each object of a history alone, for at most limit. The visualisation of what is
// refused goes to the folder.
func judge(it *history, limit time.Duration, folder string) (verdict, error) {
	var v verdict
	all, err := operations(it)
	if err != nil {
		return v, err
	}
	objects := slices.SortedFunc(maps.Keys(all), func(a, b object) int {
		return strings.Compare(a.kind+a.name, b.kind+b.name)
	})
	for _, of := range objects {
		ops := all[of]
		promised := model(of, it.Promise)
		if promised == nil {
			if !slices.Contains(v.unpromised, of.kind) {
				v.unpromised = append(v.unpromised, of.kind)
			}
			continue
		}
		if it.Promise != exclusion {
			ops = newGrants(ops)
		}
		v.judged += len(ops)
		v.objects++
		switch porcupine.CheckOperationsTimeout(*promised, ops, limit) {
		case porcupine.Ok:
		case porcupine.Illegal:
			where, err := visualise(*promised, ops, limit, filepath.Join(folder,
				strings.ReplaceAll(it.Run, " ", "-")+"-"+of.name+".html"))
			if err != nil {
				return v, err
			}
			v.refused = append(v.refused, fmt.Sprintf("%s %s: see %s", of.kind, of.name, where))
		default:
			text := fmt.Sprintf("%s %s: not within %s", of.kind, of.name, limit)
			v.unjudged = append(v.unjudged, text)
		}
	}
	if v.judged == 0 {
		return v, fmt.Errorf("nothing in it can be judged")
	}
	return v, nil
}

// visualise writes the page that shows how far the history is linearizable.
func visualise(
	by porcupine.Model, ops []porcupine.Operation, limit time.Duration, path string,
) (string, error) {
	_, info := porcupine.CheckOperationsVerbose(by, ops, limit)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, porcupine.VisualizePath(by, info, path)
}
