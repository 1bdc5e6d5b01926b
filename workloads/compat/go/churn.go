// SPDX-License-Identifier: MIT

// Goroutines fill and empty maps, pass buffers along, and then have nothing to do.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

type entry struct {
	name  string
	bytes []byte
	next  *entry
}

func work(worker, steps, seed uint64, to chan<- []byte) uint64 {
	table := map[uint64]*entry{}
	var sum uint64
	for i := uint64(0); i < steps; i++ {
		bits := mix(seed + worker<<32 + i)
		key := bits % 8192
		old := table[key]
		if old != nil {
			sum += uint64(len(old.bytes)) + uint64(len(old.name))
			old.next = nil
		}
		table[key] = &entry{strconv.FormatUint(bits, 36), make([]byte, 32+bits>>20%1500), old}
		if i%64 == 0 {
			to <- make([]byte, 8<<10)
		}
	}
	return sum + uint64(len(table))
}

func main() {
	steps, _ := strconv.ParseUint(os.Args[1], 10, 64)
	seed, _ := strconv.ParseUint(os.Args[2], 10, 64)
	const workers = 8
	buffers := make(chan []byte, 256)
	sums := make([]uint64, workers)
	var group sync.WaitGroup
	for worker := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			sums[worker] = work(uint64(worker), steps, seed, buffers)
		}()
	}
	go func() { group.Wait(); close(buffers) }()
	var sum, received uint64
	for buffer := range buffers {
		received += uint64(len(buffer))
	}
	for _, each := range sums {
		sum = sum*31 + each
	}
	fmt.Printf("received_bytes: %d\nanswer: %016x\n", received, sum)
	time.Sleep(time.Hour)
}
