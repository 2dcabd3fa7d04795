// Command porcupine judges histories of runs against real servers: whether each lock, semaphore and
// latch behaved as if its operations had happened one after another, each at some instant between
// its call and its return. README.md specifies the histories and the models.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	limit := flag.Duration("limit", time.Minute, "the time for each object; then it is not judged")
	folder := flag.String("artefacts", "refused", "where visualisations of refused histories go")
	flag.Parse()
	passed, failed := 0, 0
	for _, path := range flag.Args() {
		if report(path, *limit, *folder) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

// report judges one file and says what came of it.
func report(path string, limit time.Duration, folder string) bool {
	begun := time.Now()
	file, err := os.Open(path)
	if err != nil {
		fmt.Println("NOT JUDGED", err)
		return false
	}
	defer func() { _ = file.Close() }()
	it, err := read(file)
	if err != nil {
		fmt.Printf("NOT JUDGED %s: %v\n", path, err)
		return false
	}
	v, err := judge(it, limit, folder)
	if err != nil {
		fmt.Printf("NOT JUDGED %s: %v\n", path, err)
		return false
	}
	fmt.Printf("history %-34s %-10s %6d operations of %2d objects in %s", it.Run, it.Promise,
		v.judged, v.objects, time.Since(begun).Round(time.Millisecond))
	if len(v.unpromised) > 0 {
		fmt.Printf(" (nothing is promised of %s)", strings.Join(v.unpromised, ", "))
	}
	fmt.Println()
	for _, text := range v.refused {
		fmt.Println("  REFUSED", text)
	}
	for _, text := range v.unjudged {
		fmt.Println("  NOT JUDGED", text)
	}
	return v.accepted()
}
