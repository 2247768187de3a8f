package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// neededModules are what the machine loads: its disks, and what Debian loads by
// itself once a program asks for it.
func neededModules() []string {
	return []string{
		"virtio_pci", "virtio_blk", "overlay",
		"nft_tproxy", "nft_ct", "nft_chain_nat", "nft_nat", "nft_reject_inet", "nft_reject_ipv4",
		"tcp_diag", "udp_diag", "mptcp_diag",
	}
}

// moduleFiles finds the files of a kernel's modules, by name.
func moduleFiles(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, is := strings.CutSuffix(filepath.Base(path), ".ko"); is {
			files[moduleName(name)] = path
		}
		return err
	})
	return files, err
}

// moduleName is a name as the kernel spells it.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// moduleOrder lists the files of modules and of those that they need, in an order
// in which they can be loaded. The package has no list of dependencies (its
// scripts would make one), but each module names its own.
func moduleOrder(files map[string]string, names []string, needs func(file string) ([]string, error)) ([]string, error) {
	var order []string
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		name = moduleName(name)
		file, ok := files[name]
		if !ok {
			return fmt.Errorf("the kernel's package has no module %s", name)
		}
		if slices.Contains(order, file) {
			return nil
		}
		if slices.Contains(above, name) {
			return fmt.Errorf("module %s needs itself", name)
		}
		list, err := needs(file)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, need := range list {
			if err := visit(need, append(above, name)); err != nil {
				return err
			}
		}
		order = append(order, file)
		return nil
	}
	for _, name := range names {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleNeeds reads from a module which others it needs.
func moduleNeeds(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s has no .modinfo", filepath.Base(file))
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	return parseNeeds(data), nil
}

// parseNeeds reads the field "depends" of zero-separated ones.
func parseNeeds(info []byte) []string {
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, is := bytes.CutPrefix(field, []byte("depends=")); is && len(list) > 0 {
			return strings.Split(string(list), ",")
		}
	}
	return nil
}
