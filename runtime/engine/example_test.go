package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/minfer/minfer/runtime/demo"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/sample"
)

// A model in a file opens with Open; this one is embedded in the program.
func Example() {
	ctx := context.Background()
	file, err := demo.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	model, err := engine.OpenFile(ctx, file, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	params := sample.Defaults()
	params.Temp = 0 // greedy: the likeliest token each time
	answer, err := model.Generate(ctx, engine.Request{Prompt: "What is the capital of France?", Params: &params, MaxTokens: 50})
	if err != nil {
		log.Fatal(err)
	}
	for piece, err := range answer.Pieces {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Printf("\n(%s)\n", answer.Result().Reason)
	// Output:
	// The capital of France is Paris.
	// (end)
}
