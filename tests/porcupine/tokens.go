package main

import (
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"
)

// tokenState is what remains of a lock whose exclusion is not promised: its tokens grow.
type tokenState struct {
	granted int // new grants so far
	last    uint64
}

// newGrants are the operations that have to have growing tokens: not those of readers, and not
// further holds of what their owner has. Only one order of them can be right, that of their tokens:
// each says how many have smaller ones, so that the search need not find that out.
func newGrants(ops []porcupine.Operation) []porcupine.Operation {
	type grant struct {
		owner string
		token uint64
	}
	known := map[grant]bool{}
	var found []porcupine.Operation
	ops = slices.Clone(ops)
	sort.Slice(ops, func(i, j int) bool { return ops[i].Return < ops[j].Return })
	for _, op := range ops {
		in, out := op.Input.(input), op.Output.(output)
		key := grant{in.owner, out.token}
		if in.op == "acquire" && in.mode != "read" && !known[key] {
			known[key] = true
			found = append(found, op)
		}
	}
	for i := range found {
		out := found[i].Output.(output)
		out.count = 0
		for _, other := range found {
			if other.Output.(output).token < out.token {
				out.count++
			}
		}
		found[i].Output = out
	}
	return found
}

// tokenStep is a new grant. Two stores give the same token if they grant in the same microsecond.
func tokenStep(twins bool) func(tokenState, input, output) (bool, tokenState) {
	return func(s tokenState, _ input, out output) (bool, tokenState) {
		if s.granted < out.count || out.token < s.last || out.token == s.last && !twins {
			return false, s
		}
		return true, tokenState{granted: s.granted + 1, last: out.token}
	}
}
