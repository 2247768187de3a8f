package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table.
type row struct {
	what, own, peer, measured, target, verdict string
}

// ratioRow is met when own takes at most limit times of peer.
func ratioRow(what, peerName string, own, peer time.Duration, limit float64) row {
	ratio := float64(own) / float64(peer)
	return row{what, show(own), show(peer) + " " + peerName, fmt.Sprintf("%.2fx", ratio), fmt.Sprintf("at most %gx", limit), verdict(ratio <= limit)}
}

// fasterRow is met when own is at least limit times faster than peer.
func fasterRow(what, peerName string, own, peer time.Duration, limit float64) row {
	ratio := float64(peer) / float64(own)
	return row{what, show(own), show(peer) + " " + peerName, fmt.Sprintf("%.1fx faster", ratio), fmt.Sprintf("at least %gx faster", limit), verdict(ratio >= limit)}
}

// limitRow is met or missed by itself.
func limitRow(what, own, target string, met bool) row {
	return row{what, own, "", own, target, verdict(met)}
}

// infoRow has no target: it says how to read the row before it.
func infoRow(what, peerName string, own, peer time.Duration) row {
	return row{what, show(own), show(peer) + " " + peerName, fmt.Sprintf("%.2fx", float64(own)/float64(peer)), "", ""}
}

// rateRow is met when own reaches at least limit times of peer.
func rateRow(what string, own, peer, limit float64, unit string) row {
	r := infoRateRow(what, own, peer, unit, "direct")
	r.target, r.verdict = fmt.Sprintf("at least %gx", limit), verdict(own/peer >= limit)
	return r
}

// infoRateRow has no target.
func infoRateRow(what string, own, peer float64, unit, peerName string) row {
	return row{what, fmt.Sprintf("%.0f %s", own, unit), fmt.Sprintf("%.0f %s", peer, peerName), fmt.Sprintf("%.2fx", own/peer), "", ""}
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

func (r row) cells() []string {
	return []string{r.what, r.own, r.peer, r.measured, r.target, r.verdict}
}

func header() []string {
	return []string{"medians of one run", "forkcell", "peer", "measured", "target", ""}
}

func printText(w io.Writer, machine string, rows []row) {
	fmt.Fprintf(w, "%s\n\n", machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{header()}, tableCells(rows)...) {
		fmt.Fprintln(t, strings.ReplaceAll(strings.Join(r, "\t"), "`", ""))
	}
	_ = t.Flush()
}

func printMarkdown(w io.Writer, machine string, rows []row) {
	fmt.Fprintf(w, "%s\n\n", machine)
	fmt.Fprintf(w, "| %s |\n|---|---|---|---|---|---|\n", strings.Join(header(), " | "))
	for _, r := range tableCells(rows) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}

func tableCells(rows []row) [][]string {
	var list [][]string
	for _, r := range rows {
		list = append(list, r.cells())
	}
	return list
}

// show writes a duration with three digits at most.
func show(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d.Abs() < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	default:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
}

// number writes 100000 as 100,000.
func number(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", number(n/1000), n%1000)
}
