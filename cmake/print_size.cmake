# Prints the sizes of LIBRARY and PROGRAM.
foreach(which LIBRARY PROGRAM)
  file(SIZE ${${which}} bytes)
  math(EXPR kibibytes "${bytes} / 1024")
  get_filename_component(name ${${which}} NAME)
  message("inference only: ${name} has ${bytes} bytes (${kibibytes} KiB)")
endforeach()
