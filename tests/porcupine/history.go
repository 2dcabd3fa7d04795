package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// promise is what a run is judged by.
type promise string

const (
	exclusion promise = "exclusion" // all that each kind promises
	tokens    promise = "tokens"    // fencing tokens grow
	twoStores promise = "two_stores"
)

// header is the first line of a history.
type header struct {
	Run      string  `json:"run"`
	Promise  promise `json:"promise"`
	Seed     uint64  `json:"seed"`
	NoticeUs int64   `json:"notice_us"`
}

// line is every other line; README.md specifies it.
type line struct {
	AtUs    int64  `json:"at_us"`
	Client  string `json:"client"`
	Attempt uint64 `json:"attempt"`
	Name    string `json:"name"`
	What    string `json:"what"`
	Token   uint64 `json:"token,string"`
	ValidUs int64  `json:"valid_us"`
	Kind    string `json:"kind"`
	Mode    string `json:"mode"`
	Owner   string `json:"owner"`
	Count   int    `json:"count"`
}

// history is a run as its clients saw it.
type history struct {
	header
	lines []line
}

// read parses a history and refuses one that cannot be judged.
func read(from io.Reader) (*history, error) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	it := &history{}
	for number := 1; scanner.Scan(); number++ {
		if number == 1 {
			if err := json.Unmarshal(scanner.Bytes(), &it.header); err != nil {
				return nil, fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		var next line
		if err := json.Unmarshal(scanner.Bytes(), &next); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if next.Kind == "" {
			next.Kind = "lock"
		}
		it.lines = append(it.lines, next)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	switch it.Promise {
	case exclusion, tokens, twoStores:
	default:
		return nil, fmt.Errorf("line 1: no promise is called %q", it.Promise)
	}
	if len(it.lines) == 0 {
		return nil, fmt.Errorf("the history is empty")
	}
	sort.SliceStable(it.lines, func(i, j int) bool { return it.lines[i].AtUs < it.lines[j].AtUs })
	return it, nil
}
