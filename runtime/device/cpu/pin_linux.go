package cpu

import "golang.org/x/sys/unix"

// allowedCPUs lists the CPUs that this thread may use.
func allowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// pin ties this thread to a CPU. A system that refuses leaves it as it was: pinning is for speed alone.
func pin(cpu int) { unpin([]int{cpu}) }

// unpin lets this thread use these CPUs.
func unpin(cpus []int) {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	unix.SchedSetaffinity(0, &set)
}
