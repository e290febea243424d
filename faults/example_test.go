package faults_test

import (
	"fmt"

	"quintet.dev/quintet/faults"
)

// The same seed strikes the same requests, in whatever order they come.
func ExampleInjector_Decide() {
	plan := faults.Plan{Seed: 7, Rules: []faults.Rule{{
		Match: faults.Match{Verbs: []string{"update"}, Resources: []string{"configmaps"}},
		Times: 1, Fault: faults.Fault{Status: 409},
	}}}
	injector, err := faults.New(plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := faults.Key{User: "jane", Verb: "update", Resource: "configmaps", Namespace: "default", Name: "counter"}
	for range 2 {
		fault, strikes := injector.Decide(request)
		fmt.Println(strikes, fault.Status)
	}
	// Output:
	// true 409
	// false 0
}
