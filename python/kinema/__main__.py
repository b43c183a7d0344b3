from kinema._program import main

main()
