// A server of Google's object store for tests: fake-gcs-server, and in front of it two things that
// it lacks of Google's XML API, which delta-rs speaks. An upload becomes one of the JSON API, and
// whether it may be made, fake-gcs-server decides. A listing begins after the name that was asked
// for.
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

const (
	// What the two APIs call the same condition: the object has this generation, and 0 is none.
	headerOfCondition    = "X-Goog-If-Generation-Match"
	parameterOfCondition = "ifGenerationMatch"
	startAfter           = "start-after"
)

type uploaded struct {
	Etag       string `json:"etag"`
	Generation string `json:"generation"`
}

func main() {
	bucket := os.Args[1]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := listener.Addr().String()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener:  true,
		Scheme:      "http",
		ExternalURL: "http://" + address,
		PublicHost:  address, // the XML API is served under this name alone
	})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	fmt.Println("address", address)
	log.Fatal(http.Serve(listener, withXML(server.HTTPHandler())))
}

func withXML(store http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		bucket, object, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
		ofJSON := bucket == "upload" || bucket == "storage"
		switch {
		case request.Method == http.MethodPut && object != "" && !ofJSON:
			upload(store, answer, request, bucket, object)
		case request.Method == http.MethodGet && object == "" && request.URL.Query().Has(startAfter):
			list(store, answer, request)
		default:
			store.ServeHTTP(answer, request)
		}
	})
}

func upload(store http.Handler, answer http.ResponseWriter, request *http.Request, bucket, object string) {
	asked := url.Values{"uploadType": {"media"}, "name": {object}}
	if condition := request.Header.Get(headerOfCondition); condition != "" {
		asked.Set(parameterOfCondition, condition)
	}
	inJSON := request.Clone(request.Context())
	inJSON.Method = http.MethodPost
	inJSON.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: asked.Encode()}
	said := httptest.NewRecorder()
	store.ServeHTTP(said, inJSON)
	if said.Code != http.StatusOK {
		http.Error(answer, said.Body.String(), said.Code)
		return
	}
	var made uploaded
	if err := json.Unmarshal(said.Body.Bytes(), &made); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.Header().Set("ETag", fmt.Sprintf("%q", made.Etag))
	answer.Header().Set("X-Goog-Generation", made.Generation)
}

func list(store http.Handler, answer http.ResponseWriter, request *http.Request) {
	said := httptest.NewRecorder()
	store.ServeHTTP(said, request)
	if said.Code != http.StatusOK {
		http.Error(answer, said.Body.String(), said.Code)
		return
	}
	var found fakestorage.ListBucketResult
	if err := xml.Unmarshal(said.Body.Bytes(), &found); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	after := request.URL.Query().Get(startAfter)
	found.Contents = slices.DeleteFunc(found.Contents, func(each fakestorage.Contents) bool {
		return each.Key <= after
	})
	found.KeyCount = len(found.Contents)
	answer.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(answer).Encode(found); err != nil {
		log.Print(err)
	}
}
