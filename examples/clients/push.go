// Pushes one event over HTTP: go run push.go http://127.0.0.1:8080/events/default/orders TOKEN
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	event := `{"specversion": "1.0", "id": "go-1", "source": "/shop", "type": "order.placed", "data": {"total": 12}}`
	request, err := http.NewRequest("POST", os.Args[1], strings.NewReader(event))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json")
	request.Header.Set("Authorization", "Bearer "+os.Args[2])
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
}
