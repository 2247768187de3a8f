package tree

import (
	"fmt"
	"testing"
)

func BenchmarkEdit(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := store{}
			m := wide(n)
			w := s.writer(b, "one")
			tr := s.finish(b, w, m.build(b, w), Links{})
			w = s.writer(b, "two")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := w.Edit(s.tree(b, "one"), tr.Root().Sub)
				x := file(fmt.Sprint("new", i))
				x.Name = fmt.Sprintf("file-%06d", i*7919%n)
				e.Put(x)
				if _, err := e.Node(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := store{}
			m := wide(n)
			w := s.writer(b, "one")
			tr := s.finish(b, w, m.build(b, w), Links{})
			w = s.writer(b, "two")
			e := w.Edit(tr, tr.Root().Sub)
			x := file("changed")
			x.Name = fmt.Sprintf("file-%06d", n/2)
			e.Put(x)
			root := tr.Root()
			node, err := e.Node()
			root.Sub = must(b, node, err)
			s.finish(b, w, root, Links{})
			b.ReportAllocs()
			for b.Loop() {
				changes, err := Diff(s.tree(b, "one"), s.tree(b, "two"), DiffOptions{Renames: true})
				if err != nil || len(changes) != 1 {
					b.Fatal(err, len(changes))
				}
			}
		})
	}
}

func BenchmarkNewDir(b *testing.B) {
	entries := wide(100_000).children(".")
	s := store{}
	b.ReportAllocs()
	for b.Loop() {
		d := s.writer(b, "one").NewDir()
		for _, e := range entries {
			d.Put(e)
		}
		if _, err := d.Node(); err != nil {
			b.Fatal(err)
		}
	}
}
